#include "train/plan.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trainer::train {

StepPlan plan_steps(const config::Config& config, std::int64_t samples) {
  if (samples == 0) throw ConfigError(config.data.train.loc, "data.train: has no samples");
  StepPlan plan;
  plan.samples = samples;
  plan.batch = config.train.batch_size;
  plan.accumulate = config.optimizer.accumulate;
  plan.batches_per_epoch = data::batches_per_epoch(samples, plan.batch);
  plan.steps_per_epoch = (plan.batches_per_epoch + plan.accumulate - 1) / plan.accumulate;
  if (config.train.max_steps) {
    plan.total_steps = *config.train.max_steps;
  } else {
    const double steps =
        config.train.epochs.value_or(1) * static_cast<double>(plan.steps_per_epoch);
    plan.total_steps = static_cast<std::int64_t>(std::ceil(steps));
  }
  return plan;
}

StepPlan::Batches StepPlan::batches(std::int64_t step) const {
  const std::int64_t epoch = step / steps_per_epoch;
  const std::int64_t first = step % steps_per_epoch * accumulate;
  return {epoch * batches_per_epoch + first, std::min(accumulate, batches_per_epoch - first)};
}

std::int64_t StepPlan::samples_of(std::int64_t step) const {
  const Batches range = batches(step);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < range.count; ++i) {
    count += data::batch_range(samples, batch, range.first + i).count;
  }
  return count;
}

}  // namespace trainer::train
