// The times of training steps by rank and phase.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/phase_times.h"
#include "base/spelling.h"

namespace trainer::engine {

// The phases of a step, whose times add up to that of the step. kAllReduceHidden runs beside
// backward and is not part of the sum.
enum class StepPhase {
  kDataWait,  // waiting for the loader
  kCopy,      // copying inputs to the device
  kForward,
  kBackward,
  kAllReduce,        // sums over ranks and waiting for them, while nothing else runs
  kAllReduceHidden,  // the same while backward runs
  kUpdate,
  kOther  // the rest, or all of the device's time if a backend does not measure phases
};
constexpr std::size_t kStepPhases = 8;
constexpr std::array<StepPhase, kStepPhases> kAllStepPhases{
    StepPhase::kDataWait, StepPhase::kCopy,      StepPhase::kForward,
    StepPhase::kBackward, StepPhase::kAllReduce, StepPhase::kAllReduceHidden,
    StepPhase::kUpdate,   StepPhase::kOther};
constexpr auto spellings(StepPhase) {
  using enum StepPhase;
  return std::to_array<Spelling<StepPhase>>({{kDataWait, "data wait"},
                                             {kCopy, "copy"},
                                             {kForward, "forward"},
                                             {kBackward, "backward"},
                                             {kAllReduce, "all-reduce"},
                                             {kAllReduceHidden, "hidden all-reduce"},
                                             {kUpdate, "update"},
                                             {kOther, "other"}});
}
std::string column_name(StepPhase phase);  // "data_wait_seconds"

// One rank's seconds in a step, or in several.
struct RankTimes {
  std::array<double, kStepPhases> seconds{};

  double& operator[](StepPhase phase) { return seconds[static_cast<std::size_t>(phase)]; }
  double operator[](StepPhase phase) const { return seconds[static_cast<std::size_t>(phase)]; }
  double total() const;  // the time of the step
  double own() const;    // total() without sums over ranks and waiting for them
};

// Returns the times of a rank's step of `step_seconds`, in which it waited `wait_seconds` for data.
RankTimes rank_times(double step_seconds, double wait_seconds, const backend::PhaseTimes& device);

// A rank that the others wait for.
struct Straggler {
  std::size_t rank = 0;
  double seconds = 0;                   // its RankTimes::own() in a step
  double others = 0;                    // the median of the other ranks
  StepPhase phase = StepPhase::kOther;  // the phase in which it loses most
};

// Sums the times of all ranks over steps.
class StepTimes {
 public:
  // Adds the mean times of `steps` steps, one entry per rank; does nothing if `ranks` is empty.
  // Drops earlier sums of another number of ranks.
  void add(std::span<const RankTimes> ranks, std::int64_t steps = 1);
  void add(const StepTimes& other);

  bool empty() const { return steps_ == 0; }
  std::int64_t steps() const { return steps_; }
  std::size_t ranks() const { return sums_.size(); }
  // Returns a rank's mean seconds of a step.
  RankTimes mean_times(std::size_t rank) const;
  // Returns the share of a phase in the time of all ranks; 0 if there are no times.
  double share(StepPhase phase) const;
  // The spread of the ranks' means.
  struct Spread {
    double min = 0, median = 0, max = 0;
  };
  Spread spread(StepPhase phase) const;
  // Returns the rank whose own time in a step is far above that of the others, if there is one.
  std::optional<Straggler> straggler() const;

 private:
  std::vector<RankTimes> sums_;
  std::int64_t steps_ = 0;
};

// Returns "data wait 0.3, forward 14.1, backward 24.0 ms": the medians over the ranks, without
// phases that took no time. For several ranks, each median has the smallest and largest time with
// it.
std::string describe(const StepTimes& times);
// Returns "straggler: rank 1 (worker 1 on b) takes 83.10 ms per step of its own, the others 41.00;
// it loses most in backward". `ranks` are the names of all ranks.
std::string describe(const Straggler& straggler, const std::vector<std::string>& ranks);

}  // namespace trainer::engine
