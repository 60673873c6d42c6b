// Time that passes on the device in the phases of calls, measured in stream order by the device
// itself, so that a captured graph measures each of its replays and no host thread waits.
// Reasons: lib/decisions/backend.md#what-a-step-does-outside-of-its-graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/kernels/step.h"

namespace trainer::backend::cuda {

enum class ClockPhase : int { kCopy, kForward, kBackward, kAllReduce, kUpdate };
inline constexpr int kClockPhases = 5;

// In device memory; starts as zeros. Times are nanoseconds of the device's clock.
struct StepClock {
  std::uint64_t last;  // time is counted up to this one
  // The start of the wait for the last kAllReduce; sums before it were hidden.
  std::uint64_t waited_since;
  std::uint64_t sums[kClockPhases];
};
// The sum of a bucket on a stream of its own.
struct ClockSpan {
  std::uint64_t begin, end;
};

// Starts to count time. `forget` discards the time that was counted before.
void start_clock(StepClock* clock, bool forget, cudaStream_t stream);
// Adds the time since the last lap or start to this phase.
void lap_clock(StepClock* clock, ClockPhase phase, cudaStream_t stream);
// Begins a call in one kernel: writes its scalars, adds a lap for its copies to `from`, and moves
// the counted times to `to`, unless that is null.
void begin_call(const StepScalars& values, StepScalars* scalars, StepClock* from, StepClock* to,
                cudaStream_t stream);
void mark_time(std::uint64_t* at, cudaStream_t stream);
// Adds a lap and writes result->times: the sums of the phases, and as all_reduce_hidden the part
// of the spans before waited_since.
void stop_clock(StepClock* clock, ClockPhase phase, const ClockSpan* spans, int count,
                DeviceResult* result, cudaStream_t stream);

}  // namespace trainer::backend::cuda
