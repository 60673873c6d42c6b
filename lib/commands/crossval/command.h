// The command `crossval`.
#pragma once

#include <cstdint>
#include <optional>

#include "commands/evaluate/decision_options.h"
#include "commands/sweep/points.h"

namespace trainer::commands {

struct CrossvalArguments : PointsArguments {
  std::optional<std::int64_t> folds;
  bool best = false;
  DecisionOptions decisions;
};
// Returns the code of find_exit_code().
int execute(const CrossvalArguments& arguments, const Context& context);

}  // namespace trainer::commands
