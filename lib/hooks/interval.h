// Decides when an action that recurs every N steps, epochs or seconds is due.
#pragma once

#include <cstdint>
#include <optional>

#include "config/config.h"

namespace trainer::hooks {

class Interval {
 public:
  Interval(const config::Duration& duration, std::int64_t steps_per_epoch);
  // Call it with rising steps: after each step, or after some where other processes make steps too.
  // `elapsed`: seconds since this process started the run.
  bool due(std::int64_t step, double elapsed);
  // Whether the action is due after `step` when due() is called for every step. False for intervals
  // in seconds, which cannot be predicted.
  bool falls_on(std::int64_t step) const;

 private:
  // Number of periods that have passed after `step` steps.
  double periods(std::int64_t step) const;

  config::Duration duration_;
  std::int64_t steps_per_epoch_;
  double last_ = 0;  // elapsed when it was due last, for seconds
  std::optional<std::int64_t> last_step_;
};

}  // namespace trainer::hooks
