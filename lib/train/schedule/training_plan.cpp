#include "train/schedule/training_plan.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"

namespace trainer::train {
namespace {

// Divides the samples of the training split into those that an epoch uses and those left out.
void use_samples(const config::Config& config, std::int64_t samples, TrainingPlan& plan) {
  const std::int64_t batch = plan.batch / plan.passes_per_epoch;
  plan.samples = data::samples_per_epoch(
      samples, batch, config.data.drop_remainder ? data::Remainder::kDrop : data::Remainder::kKeep);
  plan.left_out = samples - plan.samples;
  if (plan.samples > 0) return;
  throw ConfigError(
      config.data.loc, "data.drop_remainder: leaves out all training samples, because ", samples,
      samples == 1 ? " sample does" : " samples do", " not fill a batch of ", batch,
      plan.replicas > plan.passes_per_epoch
          ? concat(" (", plan.replicas, " replicas of ", plan.batch / plan.replicas, ")")
          : "",
      "; lower train.batch_size, or remove drop_remainder");
}

}  // namespace

TrainingPlan plan_steps(const config::Config& config, std::int64_t samples, std::int64_t workers) {
  if (samples == 0) throw ConfigError(config.data.train.loc, "data.train: has no samples");
  TrainingPlan plan;
  plan.replicas = config.parallel.replicas * workers;
  plan.batch = config.train.batch_size * plan.replicas;
  plan.accumulate = config.optimizer.accumulate;
  if (config.parallel.shard == config::Parallel::Shard::kOff) plan.passes_per_epoch = plan.replicas;
  use_samples(config, samples, plan);
  plan.batches_per_epoch =
      data::batches_per_epoch(plan.samples, plan.batch / plan.passes_per_epoch);
  plan.steps_per_epoch = (plan.batches_per_epoch + plan.accumulate - 1) / plan.accumulate;
  if (config.train.max_steps) {
    plan.total_steps = *config.train.max_steps;
  } else {
    plan.total_steps = steps_in(config.train.epochs.value_or(1), plan.steps_per_epoch);
  }
  return plan;
}

std::int64_t steps_in(double units, std::int64_t steps) {
  const double exact = units * static_cast<double>(steps);
  return static_cast<std::int64_t>(std::ceil(exact - 1e-9 * std::max(1.0, exact)));
}

ScaledRate scaled_rate(const config::Config& config, std::int64_t replicas) {
  using Scaling = config::Parallel::LrScaling;
  const Scaling scaling = config.parallel.lr_scaling.value_or(Scaling::kNone);
  const auto count = static_cast<double>(replicas);
  ScaledRate rate;
  rate.optimizer = optim::update_spec(config.optimizer).learning_rate;
  switch (scaling) {
    case Scaling::kNone:
      rate.scaling = "none";
      break;
    case Scaling::kLinear:
      rate.scaling = "linear";
      rate.factor = count;
      break;
    case Scaling::kSqrt:
      rate.scaling = "sqrt";
      rate.factor = std::sqrt(count);
      break;
  }
  return rate;
}

std::string ScaledRate::text() const {
  std::ostringstream out;
  out.precision(4);
  out << optimizer << " x " << factor << " (" << scaling << ") = " << effective();
  return out.str();
}

optim::LearningRate learning_rate(const config::Config& config, const TrainingPlan& plan) {
  return optim::learning_rate(
      config.schedule, scaled_rate(config, plan.replicas).effective(),
      {static_cast<double>(plan.steps_per_epoch), std::max<std::int64_t>(plan.total_steps, 1),
       static_cast<int>(plan.replicas)});
}

TrainingPlan::Batches TrainingPlan::batches(std::int64_t step) const {
  const std::int64_t epoch = step / steps_per_epoch;
  const std::int64_t first = step % steps_per_epoch * accumulate;
  return {epoch * batches_per_epoch + first, std::min(accumulate, batches_per_epoch - first)};
}

std::int64_t TrainingPlan::count_samples(std::int64_t step) const {
  const Batches range = batches(step);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < range.count; ++i) count += count_batch_samples(range.first + i);
  return count;
}

std::int64_t TrainingPlan::count_batch_samples(std::int64_t number) const {
  return data::batch_range(samples, batch / passes_per_epoch, number).count * passes_per_epoch;
}

}  // namespace trainer::train
