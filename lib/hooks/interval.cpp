#include "hooks/interval.h"

#include <cmath>

namespace trainer::hooks {

using Unit = config::Duration::Unit;

Interval::Interval(const config::Duration& duration, std::int64_t steps_per_epoch)
    : duration_(duration), steps_per_epoch_(steps_per_epoch) {}

double Interval::periods(std::int64_t step) const {
  const double period = duration_.unit == Unit::kSteps
                            ? duration_.count
                            : duration_.count * static_cast<double>(steps_per_epoch_);
  return std::floor(static_cast<double>(step) / period + 1e-9);
}

bool Interval::due(std::int64_t step, double elapsed) {
  if (duration_.unit == Unit::kSeconds) {
    if (elapsed - last_ < duration_.count) return false;
    last_ = elapsed;
    return true;
  }
  // Due when a multiple of the period lies in (the step before, step]: also for periods that are no
  // whole steps.
  const std::int64_t before = last_step_.value_or(step - 1);
  last_step_ = step;
  return periods(step) > periods(before);
}

bool Interval::falls_on(std::int64_t step) const {
  return duration_.unit != Unit::kSeconds && periods(step) > periods(step - 1);
}

}  // namespace trainer::hooks
