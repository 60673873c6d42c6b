#include "train/schedule/schedule.h"

#include <utility>

namespace trainer::train {

Schedule::Schedule(const config::Run& run, const TrainingPlan& plan, Stages stages)
    : checkpoints_(run.checkpoint_every, plan.steps_per_epoch),
      evaluations_(run.evaluate_every, plan.steps_per_epoch),
      stages_(std::move(stages)),
      total_steps_(plan.total_steps) {}

DueActions Schedule::due(std::int64_t steps, double elapsed) {
  DueActions due;
  due.evaluate = evaluations_.due(steps, elapsed);
  due.save = checkpoints_.due(steps, elapsed);
  return due;
}

bool Schedule::is_boundary(std::int64_t steps) const {
  return steps >= total_steps_ || stages_.at(steps) != stages_.after(steps) ||
         evaluations_.falls_on(steps) || checkpoints_.falls_on(steps);
}

}  // namespace trainer::train
