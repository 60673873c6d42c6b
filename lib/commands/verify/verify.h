// Verifies by training that replicas agree and that a resumed run equals an uninterrupted one.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "backend/open.h"
#include "base/spelling.h"
#include "commands/load_config/load_config.h"
#include "config/config.h"
#include "data/open.h"
#include "graph/graph.h"
#include "results/field.h"

namespace trainer::commands {

// What is verified of a run: the bits of ordered sums, the closeness of fast sums, or the bits of a
// resumed run.
enum class Promise { kOrdered, kFast, kResume };
constexpr auto spellings(Promise) {
  using enum Promise;
  return std::to_array<Spelling<Promise>>(
      {{kOrdered, "ordered"}, {kFast, "fast"}, {kResume, "resume"}});
}

struct Verification {
  struct Row {
    Promise promise = Promise::kOrdered;
    std::string run;  // "2 x 64"
    std::int64_t steps = 0;
    std::string sha256;   // the hash of the parameters
    double distance = 0;  // the largest relative distance of a variable from the first run's
    double seconds = 0;
    bool holds = false;
  };
  std::vector<Row> rows;
  std::vector<std::string> notes;
  bool holds() const;
};
void fields(results::FieldVisitor& v, Verification::Row& row);
void fields(results::FieldVisitor& v, Verification& verification);  // without its rows

struct VerifyOptions {
  backend::Platform platform = {};
  std::vector<std::int64_t> replicas{1, 2, 4};
  std::int64_t steps = 200;
};

// Trains the config at its global batch with each number of replicas, in temporary folders: with
// ordered sums, where all must end with the same bits and the same evaluation; and ten steps of
// plain gradient descent with fast sums, where all variables must agree within 1e-5 relative or,
// where the model magnifies rounding, about as well as the same sums in another order do. The
// learning rate is not scaled. Throws ConfigError when a number of replicas does not divide the
// batch, and Error with kExitInterrupted after a signal.
Verification verify_replicas(const config::Config& config, const data::Datasets& data,
                             const graph::Graph& model, const VerifyOptions& options);

// Trains the config once in one go, and once stopped half-way and resumed: all variables, optimizer
// slots included, must end with the same bits.
Verification verify_resume(const config::Config& config, const data::Datasets& data,
                           const graph::Graph& model, const VerifyOptions& options);

void print_verification(const Verification& verification, std::ostream& out);
// Prints a line of JSON per row, and one of the whole.
void print_verification_json(const Verification& verification, std::ostream& out);

struct VerifyArguments : ConfigArguments {
  std::string what;       // replicas or resume
  VerifyOptions options;  // the platform is that of the context
};
// Returns kExitCheck if what should hold does not.
int execute(const VerifyArguments& arguments, const Context& context);

}  // namespace trainer::commands
