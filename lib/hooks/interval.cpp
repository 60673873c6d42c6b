#include <cmath>

#include "hooks/hooks.h"

namespace trainer::hooks {

Every::Every(const config::Duration& duration, std::int64_t steps_per_epoch)
    : duration_(duration), steps_per_epoch_(steps_per_epoch) {}

bool Every::due(std::int64_t step, double elapsed) {
  if (duration_.unit == config::Duration::Unit::kSeconds) {
    if (elapsed - last_ < duration_.count) return false;
    last_ = elapsed;
    return true;
  }
  // Due when a multiple of the period lies in (the step before, step]: also for periods that are no
  // whole steps.
  const double period = duration_.unit == config::Duration::Unit::kSteps
                            ? duration_.count
                            : duration_.count * static_cast<double>(steps_per_epoch_);
  const auto done = [&](std::int64_t s) {
    return std::floor(static_cast<double>(s) / period + 1e-9);
  };
  const std::int64_t before = last_step_.value_or(step - 1);
  last_step_ = step;
  return done(step) > done(before);
}

std::optional<double> metric_of(const Evaluation& evaluation, const std::string& name) {
  const std::string prefix = evaluation.split + "/";
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string metric = name.substr(prefix.size());
  if (metric == "loss") return evaluation.metrics.loss;
  if (metric == "accuracy") return evaluation.metrics.accuracy;
  if (metric == "top_k_accuracy" && evaluation.metrics.top_k > 0)
    return evaluation.metrics.top_k_accuracy;
  return std::nullopt;
}

bool larger_is_better(const std::string& metric) { return !metric.ends_with("loss"); }

}  // namespace trainer::hooks
