// The command `train`.
#pragma once

#include <string>

#include "cluster/identity.h"
#include "commands/load_config/load_config.h"

namespace trainer::commands {

struct TrainArguments : ConfigArguments {
  bool resume = false;
  bool overwrite = false;
  std::string features_dir;  // the folder of cached features that runs share
  cluster::IdentityFlags identity;
};
// Runs the process of a job that cluster::identify() finds: chief, worker, parameter server or
// evaluator. Returns kExitInterrupted for a run that a signal has stopped.
int execute(const TrainArguments& arguments, const Context& context);

}  // namespace trainer::commands
