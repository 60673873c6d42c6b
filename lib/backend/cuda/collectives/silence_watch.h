// How long a device has waited for other ranks.
#pragma once

#include <chrono>
#include <deque>
#include <vector>

#include "backend/cuda/runtime.h"

namespace trainer::backend::cuda {

// Knows of each call when the device came to it and whether it is past it. Not thread-safe.
class SilenceWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // Around the work of a call.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);
  // How long the oldest call that is not done has been seen to run; 0 when there is none.
  Clock::duration silence();

 private:
  struct Call {
    EventHandle before, after;
    bool ended = false;  // end() was called
    bool begun = false;  // the device has come to it, by `since`
    Clock::time_point since{};
  };
  void forget_done();

  std::deque<Call> calls_;   // that were not seen to be done, in order
  std::vector<Call> spare_;  // events to use again
};

}  // namespace trainer::backend::cuda
