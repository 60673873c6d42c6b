#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/step/clock.h"

namespace trainer::backend::cuda {
namespace {

__device__ inline std::uint64_t nanoseconds() {
#ifdef __CUDACC__
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return simt::nanoseconds;
#endif
}

__device__ inline void add_lap(StepClock* clock, int phase) {
  const std::uint64_t now = nanoseconds();
  if (phase == static_cast<int>(ClockPhase::kAllReduce)) clock->waited_since = clock->last;
  // The clocks of a device's parts may differ by a tick.
  if (now > clock->last) clock->sums[phase] += now - clock->last;
  clock->last = now;
}

__global__ void start_clock_kernel(StepClock* clock, bool forget) {
  if (forget) *clock = {};
  clock->last = nanoseconds();
}

__global__ void lap_clock_kernel(StepClock* clock, int phase) { add_lap(clock, phase); }

__global__ void begin_call_kernel(StepScalars values, StepScalars* scalars, StepClock* from,
                                  StepClock* to) {
  *scalars = values;
  add_lap(from, static_cast<int>(ClockPhase::kCopy));
  if (to == nullptr) return;
  *to = *from;
  *from = {};
  from->last = to->last;
}

__global__ void mark_time_kernel(std::uint64_t* at) { *at = nanoseconds(); }

__global__ void stop_clock_kernel(StepClock* clock, int phase, const ClockSpan* spans, int count,
                                  DeviceResult* result) {
  add_lap(clock, phase);
  std::uint64_t hidden = 0;
  for (int i = 0; i < count; ++i) {
    const bool waited = spans[i].end > clock->waited_since;
    const std::uint64_t end = waited ? clock->waited_since : spans[i].end;
    if (end > spans[i].begin) hidden += end - spans[i].begin;
  }
  const auto seconds = [clock](ClockPhase of) {
    return static_cast<double>(clock->sums[static_cast<int>(of)]) * 1e-9;
  };
  PhaseTimes& times = result->times;
  times.measured = true;
  times.copy = seconds(ClockPhase::kCopy);
  times.forward = seconds(ClockPhase::kForward);
  times.backward = seconds(ClockPhase::kBackward);
  times.all_reduce = seconds(ClockPhase::kAllReduce);
  times.all_reduce_hidden = static_cast<double>(hidden) * 1e-9;
  times.update = seconds(ClockPhase::kUpdate);
}

}  // namespace

void start_clock(StepClock* clock, bool forget, cudaStream_t stream) {
  launch("start_clock", start_clock_kernel, 1, 1, 0, stream, clock, forget);
}

void lap_clock(StepClock* clock, ClockPhase phase, cudaStream_t stream) {
  launch("lap_clock", lap_clock_kernel, 1, 1, 0, stream, clock, static_cast<int>(phase));
}

void begin_call(const StepScalars& values, StepScalars* scalars, StepClock* from, StepClock* to,
                cudaStream_t stream) {
  launch("begin_call", begin_call_kernel, 1, 1, 0, stream, values, scalars, from, to);
}

void mark_time(std::uint64_t* at, cudaStream_t stream) {
  launch("mark_time", mark_time_kernel, 1, 1, 0, stream, at);
}

void stop_clock(StepClock* clock, ClockPhase phase, const ClockSpan* spans, int count,
                DeviceResult* result, cudaStream_t stream) {
  launch("stop_clock", stop_clock_kernel, 1, 1, 0, stream, clock, static_cast<int>(phase), spans,
         count, result);
}

}  // namespace trainer::backend::cuda
