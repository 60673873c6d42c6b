// The training loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "config/config.h"
#include "data/data.h"
#include "engine/replicas.h"
#include "hooks/hooks.h"
#include "optim/optim.h"
#include "train/parameter_servers.h"
#include "train/run_dir.h"
#include "train/step_plan.h"
#include "train/workers.h"

namespace trainer::train {

struct Job {
  const config::Config& config;
  const data::Datasets& data;
  engine::Replicas& engine;  // all replicas as one
  StepPlan plan;
  // The processes that train together; null: this one alone. `plan` and `engine` are made with it.
  Workers* workers = nullptr;
  // Instead of those: the servers that this one, the chief, shares with other workers.
  ParameterServers* servers = nullptr;
  Path run = {};
  Start start = Start::kFresh;
  std::vector<std::unique_ptr<hooks::Hook>> hooks = {};
  std::function<void(const std::string&)> warn = {};  // what the user should know; one line each
};

// Trains until the last step, a stop request or a signal, and evaluates and saves at the end. The
// run folder must be ready and locked. Returns what the hooks were told at the end; `reason`
// "interrupted" after a signal. Throws CheckError when a loss is not finite, naming layer, step,
// learning rate and last checkpoint. When data cannot be read, the last step that was finished is
// saved before the error, which has the code of a DataError, is thrown; other workers then throw
// PeerError.
hooks::Finish train(Job& job);

}  // namespace trainer::train
