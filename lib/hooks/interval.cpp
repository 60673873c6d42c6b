#include "hooks/interval.h"

#include <algorithm>
#include <bit>
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
  // The action is due if a multiple of the period lies in (last step, step]. This also works for
  // periods that are not whole numbers of steps.
  const std::int64_t before = last_step_.value_or(step - 1);
  last_step_ = step;
  return periods(step) > periods(before);
}

bool Interval::falls_on(std::int64_t step) const {
  return duration_.unit != Unit::kSeconds && periods(step) > periods(step - 1);
}

std::int64_t row_spacing(std::int64_t period, std::int64_t dense) {
  const auto last = static_cast<std::uint64_t>(std::max<std::int64_t>(period, 1) - 1);
  return static_cast<std::int64_t>(std::bit_ceil(last / static_cast<std::uint64_t>(dense) + 1));
}

RowInterval::RowInterval(const config::Duration& duration, std::int64_t steps_per_epoch)
    : periods_{{duration, steps_per_epoch}},
      epochs_{{{1, Unit::kEpochs}, std::max<std::int64_t>(steps_per_epoch, 1)}} {}

bool RowInterval::due(std::int64_t step, double elapsed) {
  const bool period = periods_.due(step, elapsed), epoch = epochs_.due(step, elapsed);
  return period || epoch;
}

bool RowInterval::Periods::due(std::int64_t step, double elapsed) {
  const bool is_first = newest == 0;
  if (!interval.due(step, elapsed)) return false;
  newest =
      interval.is_in_seconds() ? newest + 1 : static_cast<std::int64_t>(interval.periods(step));
  if (is_first) written = newest - 1;
  const std::int64_t spacing = row_spacing(newest, kDensePeriods);
  if (newest / spacing == written / spacing) return false;
  written = newest;
  return true;
}

}  // namespace trainer::hooks
