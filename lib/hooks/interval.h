// Decides when an action that recurs every N steps, epochs or seconds is due.
#pragma once

#include <cstdint>
#include <optional>

#include "config/sections/duration.h"

namespace trainer::hooks {

class Interval {
 public:
  Interval(const config::Duration& duration, std::int64_t steps_per_epoch);
  // Returns whether the action is due after `step`. Call it with rising steps, which may have gaps
  // if other processes make steps too. `elapsed` is the seconds since this process started the run.
  bool due(std::int64_t step, double elapsed);
  // Returns whether the action is due after `step` if due() is called for every step. Returns false
  // for intervals in seconds, which cannot be predicted.
  bool falls_on(std::int64_t step) const;
  // Returns the number of periods that have passed after `step` steps. Not for intervals in
  // seconds.
  double periods(std::int64_t step) const;
  bool is_in_seconds() const { return duration_.unit == config::Duration::Unit::kSeconds; }

 private:
  config::Duration duration_;
  std::int64_t steps_per_epoch_;
  double last_ = 0;  // seconds elapsed when the action was last due
  std::optional<std::int64_t> last_step_;
};

// Returns the distance between the rows of a file in periods: 1 up to `dense` periods, 2 up to
// twice as many, 4 up to four times as many, and so on. A file grows with the logarithm of a long
// run, and has the same rows however often the run was resumed.
std::int64_t row_spacing(std::int64_t period, std::int64_t dense);

// Decides when a row is due: after every period of the interval and at every epoch's end, then
// further and further apart.
class RowInterval {
 public:
  RowInterval(const config::Duration& duration, std::int64_t steps_per_epoch);
  // Returns whether a row is due after `step`; see Interval::due(). Periods in seconds are counted
  // from the start of this process.
  bool due(std::int64_t step, double elapsed);

 private:
  static constexpr std::int64_t kDensePeriods = 1 << 14;

  // The periods that have passed, and the period of the last row.
  struct Periods {
    Interval interval;
    std::int64_t newest = 0, written = 0;
    bool due(std::int64_t step, double elapsed);
  };
  Periods periods_, epochs_;
};

}  // namespace trainer::hooks
