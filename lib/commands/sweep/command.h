// The command `sweep`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/sweep/sweep.h"

namespace trainer::commands {

struct SweepArguments : PointsArguments {
  std::vector<std::string> over;
  std::string launcher = "local";
  std::string image = "registry.example/trainer:latest";
  std::optional<double> to_accuracy;
  bool last = false;
  std::int64_t max_points = results::kMaxPoints;
};
// Returns the code of find_exit_code(), or with `collect` kExitData for damaged points.
int execute(const SweepArguments& arguments, const Context& context);

}  // namespace trainer::commands
