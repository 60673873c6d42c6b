// Measures how long a device has waited for other ranks.
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/cuda/runtime.h"

namespace trainer::backend::cuda {

// Records when the device came to each call and whether it is done with the call. One thread makes
// the calls and any thread may ask, also while the first one blocks in a call: a full queue of the
// device blocks every call that puts work into a stream, cudaEventRecord too.
class SilenceWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // begin() and end() enclose the work of a call.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);
  // Returns how long the oldest call that is not done has been seen to run; 0 if there is none.
  Clock::duration silence();

 private:
  struct Call {
    EventHandle before, after;
    bool ended = false;                        // end() was called
    std::optional<Clock::time_point> begun{};  // time when it was first seen to have come
  };
  Call take_spare();
  void forget_done();

  std::mutex mutex_;         // unlocked while events are recorded
  std::deque<Call> calls_;   // calls that were not yet seen to be done, in order
  std::vector<Call> spare_;  // events to use again
};

}  // namespace trainer::backend::cuda
