// Where the time of training steps went, by rank and phase.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/phase_times.h"

namespace trainer::engine {

// The phases of a step, whose times add up to that of the step. Hidden sums over ranks run beside
// backward and come on top.
enum class StepPhase {
  kDataWait,  // for the loader
  kCopy,      // of inputs to the device
  kForward,
  kBackward,
  kAllReduce,        // sums over ranks and waiting for them, with nothing beside
  kAllReduceHidden,  // the same beside backward
  kUpdate,
  kOther  // the rest; all of the device's time where a backend cannot tell
};
constexpr std::size_t kStepPhases = 8;
constexpr std::array<StepPhase, kStepPhases> kAllStepPhases{
    StepPhase::kDataWait, StepPhase::kCopy,      StepPhase::kForward,
    StepPhase::kBackward, StepPhase::kAllReduce, StepPhase::kAllReduceHidden,
    StepPhase::kUpdate,   StepPhase::kOther};
const char* name_of(StepPhase phase);    // "data wait", "all-reduce"
std::string column_of(StepPhase phase);  // "data_wait_seconds"

// One rank's seconds in a step, or in several.
struct RankTimes {
  std::array<double, kStepPhases> seconds{};

  double& operator[](StepPhase phase) { return seconds[static_cast<std::size_t>(phase)]; }
  double operator[](StepPhase phase) const { return seconds[static_cast<std::size_t>(phase)]; }
  double total() const;  // of the step
  double own() const;    // of these, without sums over ranks and waiting for them
};

// A rank's step of `step_seconds`, of which it waited `wait_seconds` for data.
RankTimes rank_times(double step_seconds, double wait_seconds, const backend::PhaseTimes& device);

// A rank that the others wait for.
struct Straggler {
  std::size_t rank = 0;
  double seconds = 0;                   // of its own in a step
  double others = 0;                    // the median of the other ranks
  StepPhase phase = StepPhase::kOther;  // in which it loses most
};

// The sums over some steps of all ranks.
class StepTimes {
 public:
  // Of all ranks in their order, the means of so many steps; ignored when empty. Sums of another
  // number of ranks are dropped.
  void add(std::span<const RankTimes> ranks, std::int64_t steps = 1);
  void add(const StepTimes& other);

  bool empty() const { return steps_ == 0; }
  std::int64_t steps() const { return steps_; }
  std::size_t ranks() const { return sums_.size(); }
  // Seconds of a step, the mean over the steps.
  RankTimes mean_of(std::size_t rank) const;
  // Of all ranks' time, the share of a phase; 0 when there is none.
  double share(StepPhase phase) const;
  // Over the ranks' means.
  struct Spread {
    double min = 0, median = 0, max = 0;
  };
  Spread spread(StepPhase phase) const;
  // The rank whose own time in a step is far above that of the others, if there is one.
  std::optional<Straggler> straggler() const;

 private:
  std::vector<RankTimes> sums_;
  std::int64_t steps_ = 0;
};

// "data wait 0.3, forward 14.1, backward 24.0 ms": the medians over the ranks, phases without
// time left out; of several ranks, each with the smallest and largest.
std::string describe(const StepTimes& times);
// "straggler: rank 1 (worker 1 on b) takes 83.10 ms a step of its own, the others 41.00; it loses
// most in backward". `ranks` are the names of all.
std::string describe(const Straggler& straggler, const std::vector<std::string>& ranks);

}  // namespace trainer::engine
