// The time between a stream's programs, from events around each.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "backend/cuda/runtime.h"

namespace trainer::backend::cuda {

// Never waits for the device. All calls are made with the stream's device current.
class GapClock {
 public:
  // Around what a program enqueues.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);
  // The host waited for the stream: the time up to the next program is its own.
  void interrupt() { follows_ = false; }
  // Returns the gaps before programs that are so old that a caller with the maximum in flight has
  // waited for them.
  StreamGaps gaps();

 private:
  // Programs whose events wait to be read. A program is read once kInFlight newer ones were
  // launched, and never when the device is further behind than all slots.
  static constexpr std::uint64_t kSlots = 8, kInFlight = 2;
  struct Slot {
    EventHandle begin, end;
    bool follows = false;   // the host did not wait for the program before
    bool complete = false;  // its end is recorded
  };
  Slot& slot(std::uint64_t program) { return slots_[program % kSlots]; }
  void read_until(std::uint64_t program);

  std::array<Slot, kSlots> slots_;
  std::uint64_t begun_ = 0, read_ = 0;  // numbers of programs
  bool follows_ = false;
  StreamGaps gaps_;
};

}  // namespace trainer::backend::cuda
