// When something that happens every so many steps, epochs or seconds is due.
#pragma once

#include <cstdint>
#include <optional>

#include "config/config.h"

namespace trainer::hooks {

class Interval {
 public:
  Interval(const config::Duration& duration, std::int64_t steps_per_epoch);
  // Called in the order of the steps, after each, or after some where other processes make steps
  // too. `elapsed` in seconds since the start of the process's run.
  bool due(std::int64_t step, double elapsed);
  // Whether it is due after `step` when due() is called for every step. False for seconds, which
  // cannot be foreseen.
  bool falls_on(std::int64_t step) const;

 private:
  // Periods that are over after `step` steps.
  double periods(std::int64_t step) const;

  config::Duration duration_;
  std::int64_t steps_per_epoch_;
  double last_ = 0;  // elapsed when it was due last, for seconds
  std::optional<std::int64_t> last_step_;
};

}  // namespace trainer::hooks
