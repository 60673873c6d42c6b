// What the parts of one run share: steps, checkpoints, stages and evaluations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "optim/optim.h"
#include "train/feature_plan.h"
#include "train/loop.h"
#include "train/loop/read_failure.h"
#include "train/signals.h"
#include "train/state.h"

namespace trainer::train {

// What parameter servers replace in a run. The defaults are those of a process group.
struct ServerCalls {
  bool are_used = false;
  // Returns whether this process should stop.
  std::function<bool()> stop_requested = [] { return SignalWatch::received() != nullptr; };
  // Throws PeerError when a peer has gone. A process group detects a lost peer in its next
  // collective call.
  std::function<void()> check_peers = [] {};
  // Updates the run's step and the engine's variables to one full state of the job.
  std::function<void()> pull_full_state = [] {};
  // Reports that there is a checkpoint of this step.
  std::function<void(std::int64_t step)> report_checkpoint = [](std::int64_t) {};
};

struct RunContext {
  // `run` must outlive the context.
  explicit RunContext(Job& run, ServerCalls calls = {});

  Job& job;
  const ServerCalls servers;
  optim::LearningRate scheduled_rate;  // the rate of update number i, from 0, before reductions
  RunState state;
  std::int64_t saved_step = 0;  // the step of the last checkpoint
  ReadFailure failure;
  double start_seconds;  // time on the job's clock

  // Returns the learning rate of update number `step`, from 0, with the reductions of the
  // evaluations so far.
  double rate(std::int64_t step) const {
    return scheduled_rate(step) * (state.plateau ? state.plateau->factor : 1);
  }
  double elapsed() const { return job.clock() - start_seconds; }
  // Returns "training, step 12, last checkpoint at step 10", for the messages of other processes.
  std::string phase(const std::string& what) const;

  // Calls call(hook) for every hook; returns the strongest request.
  template <class Call>
  hooks::Request notify_hooks(const Call& call) {
    hooks::Request strongest = hooks::Request::kContinue;
    for (const auto& hook : job.hooks) strongest = std::max(strongest, call(*hook));
    return strongest;
  }
};

}  // namespace trainer::train
