#include "backend/cuda/telemetry/gap_clock.h"

#include <algorithm>

namespace trainer::backend::cuda {

void GapClock::begin(cudaStream_t stream) {
  // The slot that is taken over, and the end before it that its gap begins with.
  if (begun_ >= kSlots - 1) read_until(begun_ - (kSlots - 1) + 1);
  Slot& mine = slot(begun_++);
  if (!mine.begin) {
    mine.begin = create_timing_event();
    mine.end = create_timing_event();
  }
  mine.complete = false;
  mine.follows = follows_;
  check(cudaEventRecord(mine.begin.get(), stream), "cudaEventRecord");
}

void GapClock::end(cudaStream_t stream) {
  Slot& mine = slot(begun_ - 1);
  check(cudaEventRecord(mine.end.get(), stream), "cudaEventRecord");
  mine.complete = true;
  follows_ = true;
}

StreamGaps GapClock::gaps() {
  if (begun_ > kInFlight) read_until(begun_ - kInFlight);
  return gaps_;
}

// Programs [read_, program).
void GapClock::read_until(std::uint64_t program) {
  for (; read_ < program; ++read_) {
    Slot& mine = slot(read_);
    if (!mine.follows || read_ == 0 || !slot(read_ - 1).complete) continue;
    const cudaError_t status = cudaEventQuery(mine.begin.get());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      continue;
    }
    check(status, "cudaEventQuery");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, slot(read_ - 1).end.get(), mine.begin.get()),
          "cudaEventElapsedTime");
    gaps_.seconds += std::max(0.0, static_cast<double>(milliseconds) / 1e3);
    ++gaps_.count;
  }
}

}  // namespace trainer::backend::cuda
