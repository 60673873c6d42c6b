// The command `crossval`.
#pragma once

#include <cstdint>
#include <optional>

#include "commands/sweep/points.h"
#include "results/decisions/decision_options.h"

namespace trainer::commands {

struct CrossvalArguments : PointsArguments {
  std::optional<std::int64_t> folds;
  bool best = false;
  results::DecisionOptions decisions;
};
// Returns the code of find_exit_code().
int execute(const CrossvalArguments& arguments, const Context& context);

}  // namespace trainer::commands
