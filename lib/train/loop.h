// The training loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/notice.h"
#include "base/process/progress.h"
#include "config/config.h"
#include "data/open.h"
#include "engine/engine.h"
#include "hooks/hooks.h"
#include "train/loop/clock.h"
#include "train/process_group.h"
#include "train/run_dir.h"
#include "train/schedule/training_plan.h"
#include "train/steps/steps.h"

namespace trainer::train {

// The arguments of train(). Everything that a Job refers to must outlive the run.
struct Job {
  const config::Config& config;
  const data::Datasets& data;
  engine::Engine& engine;     // all replicas of this process
  TrainingPlan plan;          // the plan of all processes
  ProcessGroup& group;        // a group of one trains alone
  Path run = {};              // the run folder
  Path shared_features = {};  // the folder of cached features that runs share; empty: the run's own
  std::string build = {};     // the version of the program
  Start start = Start::kFresh;
  std::vector<std::unique_ptr<hooks::Hook>> hooks = {};  // empty on other ranks than the chief
  std::function<void(const Notice&)> warn = {};          // shows a line to the user
  Clock clock = steady_seconds;
  Progress progress = {};  // advances with the run
  // Makes the steps of train(); null: make_synchronous_steps(). Tests of the loop's order set it.
  std::function<std::unique_ptr<Steps>(RunContext&)> make_steps = {};
};

// Trains until the last step, a stop request or a signal, then evaluates and saves. The run
// folder must be ready and locked. Returns what Hook::on_finish() gets. Throws CheckError
// when a loss is not finite, naming layer, step, learning rate and last checkpoint. When
// data cannot be read, saves the last finished step and throws an Error with kExitData;
// other ranks then throw PeerError. The caller passes every exception to
// ProcessGroup::fail().
hooks::Finish train(Job& job);

}  // namespace trainer::train
