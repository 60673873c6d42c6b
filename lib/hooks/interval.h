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
  // Number of periods that have passed after `step` steps; not for intervals in seconds.
  double periods(std::int64_t step) const;
  bool is_in_seconds() const { return duration_.unit == config::Duration::Unit::kSeconds; }

 private:
  config::Duration duration_;
  std::int64_t steps_per_epoch_;
  double last_ = 0;  // elapsed when it was due last, for seconds
  std::optional<std::int64_t> last_step_;
};

// How far apart the rows of a file are, in periods: 1 up to `dense` periods, 2 up to twice as many,
// 4 up to four times, and so on. A file grows with the logarithm of a long run, and has the same
// rows however often the run was resumed.
std::int64_t row_spacing(std::int64_t period, std::int64_t dense);

// Decides when a row is due: after every period of the interval and at every epoch's end, then
// further and further apart.
class RowInterval {
 public:
  RowInterval(const config::Duration& duration, std::int64_t steps_per_epoch);
  // As Interval::due(). Periods in seconds are counted from the start of this process.
  bool due(std::int64_t step, double elapsed);

 private:
  static constexpr std::int64_t kDensePeriods = 1 << 14;

  // Periods that have passed, and that of the last row.
  struct Periods {
    Interval interval;
    std::int64_t newest = 0, written = 0;
    bool due(std::int64_t step, double elapsed);
  };
  Periods periods_, epochs_;
};

}  // namespace trainer::hooks
