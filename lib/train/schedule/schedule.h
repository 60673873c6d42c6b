// Decides when a run evaluates and saves, and how far steps may be launched ahead of that.
#pragma once

#include <cstdint>

#include "hooks/interval.h"
#include "train/schedule/stages.h"
#include "train/schedule/step_summary.h"

namespace trainer::train {

class Schedule {
 public:
  Schedule(const config::Run& run, const TrainingPlan& plan, Stages stages);

  // Returns the actions due after `steps` steps, `elapsed` seconds after the start. Call it in the
  // order of the steps.
  DueActions due(std::int64_t steps, double elapsed);
  // Returns whether an action is certain to be due after `steps` steps: an evaluation, a
  // checkpoint, another stage or the end. Later steps wait for it.
  bool is_boundary(std::int64_t steps) const;

 private:
  hooks::Interval checkpoints_, evaluations_;
  Stages stages_;
  std::int64_t total_steps_;
};

}  // namespace trainer::train
