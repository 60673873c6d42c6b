// Finds where two runs that should be the same diverge, and possible causes.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "commands/compare/compare.h"

namespace trainer::commands {

struct RunDiff {
  struct Field {
    std::string name;  // "samples", "sample_ids", "learning_rate", "loss", "parameters"
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

// Throws DataError when a run has no ledger.
RunDiff diff(const RunFiles& first, const RunFiles& second);

void print_diff(const RunDiff& diff, std::ostream& out);
// {"event":"diff",...}, one line.
void print_diff_json(const RunDiff& diff, std::ostream& out);

}  // namespace trainer::commands
