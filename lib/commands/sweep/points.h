// Trains or reads the points of a plan: what `sweep` and `crossval` have in common.
#pragma once

#include <string>
#include <vector>

#include "commands/load_config/load_config.h"
#include "commands/sweep/sweep.h"

namespace trainer::commands {

// The arguments of both commands.
struct PointsArguments : ConfigArguments {
  std::string folder;    // the folder of the points; see plan_sweep() and plan_crossval()
  bool collect = false;  // reads what has been trained, and trains nothing
};

// Returns the path of this program.
Path find_program();
// Trains the points of a written plan and prints their progress with the accuracy of `checkpoint`,
// or with `collect` reads what has been trained.
std::vector<results::PointState> train_or_collect(const PointsArguments& arguments,
                                                  const results::SweepPlan& plan,
                                                  results::ScoredCheckpoint checkpoint,
                                                  const Context& context);

}  // namespace trainer::commands
