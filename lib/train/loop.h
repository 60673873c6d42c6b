// The training loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "config/config.h"
#include "data/data.h"
#include "engine/replicas.h"
#include "hooks/hooks.h"
#include "train/run_dir.h"
#include "train/session/clock.h"
#include "train/steps/step_plan.h"
#include "train/strategy/strategy.h"

namespace trainer::train {

// Everything that it refers to must outlive the run.
struct Job {
  const config::Config& config;
  const data::Datasets& data;
  engine::Replicas& engine;  // all replicas of this process
  StepPlan plan;             // of all processes
  Strategy& strategy;        // of one run
  Path run = {};             // the run folder
  Start start = Start::kFresh;
  std::vector<std::unique_ptr<hooks::Hook>> hooks = {};  // the chief's
  std::function<void(const std::string&)> warn = {};     // what the user should know; one line each
  Clock clock = steady_seconds;
};

// Trains until the last step, a stop request or a signal, and evaluates and saves at the end. The
// run folder must be ready and locked. Returns what the hooks get at the end. Throws
// CheckError when a loss is not finite, naming layer, step, learning rate and last checkpoint. When
// data cannot be read, the last finished step is saved and an Error with the code of a DataError is
// thrown; other workers then throw PeerError. The caller passes what is thrown to the strategy's
// fail().
hooks::Finish train(Job& job);

}  // namespace trainer::train
