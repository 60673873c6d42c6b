// The training loop.
// Reasons: lib/decisions/train.md#steps-in-flight.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/notice.h"
#include "config/config.h"
#include "data/data.h"
#include "engine/replicas.h"
#include "hooks/hooks.h"
#include "train/run_dir.h"
#include "train/session/clock.h"
#include "train/steps/step_plan.h"
#include "train/strategy/strategy.h"

namespace trainer::train {

// The arguments of train(). Everything that a Job refers to must outlive the run.
struct Job {
  const config::Config& config;
  const data::Datasets& data;
  engine::Replicas& engine;  // all replicas of this process
  StepPlan plan;             // of all processes
  Strategy& strategy;        // of one run
  Path run = {};             // the run folder
  Start start = Start::kFresh;
  std::vector<std::unique_ptr<hooks::Hook>> hooks = {};  // the chief's
  std::function<void(const Notice&)> warn = {};          // what the user should know; one line each
  Clock clock = steady_seconds;
};

// Trains until the last step, a stop request or a signal, then evaluates and saves. The run
// folder must be ready and locked. Returns what Hook::on_finish() gets. Throws CheckError
// when a loss is not finite, naming layer, step, learning rate and last checkpoint. When
// data cannot be read, saves the last finished step and throws an Error with kExitData;
// other workers then throw PeerError. The caller passes every exception to
// Strategy::fail().
hooks::Finish train(Job& job);

}  // namespace trainer::train
