// Time that passes on the device in the phases of calls, measured in stream order by the device
// itself, so that a captured graph measures each of its replays and no host thread waits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/kernels/step.h"

namespace trainer::backend::cuda {

enum class ClockPhase : int { kCopy, kForward, kBackward, kAllReduce, kUpdate };
inline constexpr int kClockPhases = 5;

// In device memory; starts as zeros. Times are nanoseconds of the device's clock.
struct StepClock {
  std::uint64_t last;  // until here time is counted
  // Since when the last kAllReduce was waited for: what was summed before was hidden.
  std::uint64_t waited_since;
  std::uint64_t sums[kClockPhases];
};
// The sum of a bucket on a stream of its own.
struct ClockSpan {
  std::uint64_t begin, end;
};

// Time is counted from now on; what was counted before stays, or is forgotten.
void start_clock(StepClock* clock, bool forget, cudaStream_t stream);
// The time since the last lap or start was this phase's.
void lap_clock(StepClock* clock, ClockPhase phase, cudaStream_t stream);
// `to` goes on with what `from` has counted, which begins anew.
void hand_over_clock(StepClock* from, StepClock* to, cudaStream_t stream);
void mark_time(std::uint64_t* at, cudaStream_t stream);
// A lap, after which the sums, and of the spans' time what lay before waited_since, become
// numbers->times.
void stop_clock(StepClock* clock, ClockPhase phase, const ClockSpan* spans, int count,
                StepNumbers* numbers, cudaStream_t stream);

}  // namespace trainer::backend::cuda
