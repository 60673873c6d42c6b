// A stopwatch whose laps are the phases of a call.
#pragma once

#include <array>
#include <chrono>

namespace trainer::backend::cpu {

// One thread at a time may use it.
class PhaseClock {
 public:
  enum class Phase { kForward, kBackward, kAllReduce, kUpdate };

  void start() {
    seconds_ = {};
    last_ = Clock::now();
  }
  // Adds the time since the last lap, or since the start, to this phase.
  void lap(Phase phase) {
    const Clock::time_point now = Clock::now();
    seconds_[static_cast<std::size_t>(phase)] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  double seconds(Phase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_;
  std::array<double, 4> seconds_{};
};

}  // namespace trainer::backend::cpu
