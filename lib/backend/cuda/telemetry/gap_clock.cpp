#include "backend/cuda/telemetry/gap_clock.h"

#include <algorithm>

namespace trainer::backend::cuda {

void GapClock::begin(cudaStream_t stream) {
  // The slot that is taken over, and the end before it that its gap begins with.
  if (begun_ >= kSlots - 1) read_until(begun_ - (kSlots - 1) + 1);
  Slot& current = slot(begun_++);
  if (!current.begin) {
    current.begin = create_timing_event();
    current.end = create_timing_event();
  }
  current.complete = false;
  current.follows = follows_;
  check(cudaEventRecord(current.begin.get(), stream), "cudaEventRecord");
}

void GapClock::end(cudaStream_t stream) {
  Slot& current = slot(begun_ - 1);
  check(cudaEventRecord(current.end.get(), stream), "cudaEventRecord");
  current.complete = true;
  follows_ = true;
}

StreamGaps GapClock::gaps() {
  if (begun_ > kInFlight) read_until(begun_ - kInFlight);
  return gaps_;
}

// Programs [read_, program).
void GapClock::read_until(std::uint64_t program) {
  for (; read_ < program; ++read_) {
    Slot& current = slot(read_);
    if (!current.follows || read_ == 0 || !slot(read_ - 1).complete) continue;
    const cudaError_t status = cudaEventQuery(current.begin.get());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      continue;
    }
    check(status, "cudaEventQuery");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, slot(read_ - 1).end.get(), current.begin.get()),
          "cudaEventElapsedTime");
    gaps_.seconds += std::max(0.0, static_cast<double>(milliseconds) / 1e3);
    ++gaps_.count;
  }
}

}  // namespace trainer::backend::cuda
