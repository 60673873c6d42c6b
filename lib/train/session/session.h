// What the parts of one run share: the loop, its strategy, checkpoints and evaluations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "optim/optim.h"
#include "train/loop.h"
#include "train/session/read_failure.h"
#include "train/state.h"

namespace trainer::train {

struct Session {
  // `run` must outlive the session.
  explicit Session(Job& run);

  Job& job;
  optim::LearningRate scheduled_rate;  // of update number i, from 0, before reductions
  RunState state;
  std::int64_t saved_step = 0;  // of the last checkpoint
  ReadFailure failure;
  double start_seconds;  // of the job's clock

  // The learning rate of update number `step`, from 0, as the evaluations so far have it.
  double rate(std::int64_t step) const {
    return scheduled_rate(step) * (state.plateau ? state.plateau->factor : 1);
  }
  double elapsed() const { return job.clock() - start_seconds; }
  // "training, step 12, last checkpoint at step 10", for the messages of other processes.
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
