// Finds where two runs that should be the same diverge, and possible causes.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/spelling.h"
#include "commands/compare/compare.h"

namespace trainer::commands {

// The columns of two ledgers that are compared.
enum class LedgerField { kSamples, kSampleIds, kLearningRate, kLoss, kGradientNorm, kParameters };
constexpr auto spellings(LedgerField) {
  using enum LedgerField;
  return std::to_array<Spelling<LedgerField>>({{kSamples, "samples"},
                                               {kSampleIds, "sample_ids"},
                                               {kLearningRate, "learning_rate"},
                                               {kLoss, "loss"},
                                               {kGradientNorm, "gradient_norm"},
                                               {kParameters, "parameters"}});
}

struct RunDiff {
  struct Field {
    LedgerField field = LedgerField::kSamples;
    std::string first, second;
  };
  std::string first, second;                  // the runs, as the user named them
  std::int64_t common_steps = 0;              // steps that both ledgers have
  std::int64_t common_hashes = 0;             // parameter hashes of the same step
  std::optional<std::int64_t> step;           // the first that is not the same in both
  std::vector<Field> fields;                  // the values that differ there
  std::optional<std::int64_t> equal;          // the last step before it that is the same in both
  std::vector<Comparison::Setting> settings;  // configs, programs, data and machines that differ
};

void fields(results::FieldVisitor& v, RunDiff& diff);

// Throws DataError when a run has no ledger.
RunDiff diff(const results::RunFiles& first, const results::RunFiles& second);

void print_diff(const RunDiff& diff, std::ostream& out);

}  // namespace trainer::commands
