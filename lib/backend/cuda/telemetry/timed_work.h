// The times of a call's pieces of work, from events around each.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <vector>

#include "backend/cuda/runtime.h"
#include "backend/work_record.h"

namespace trainer::backend::cuda {

// Times the work of one call at a time, which is enqueued and not a captured graph. The device of
// its streams must be current in all calls.
class TimedWork {
 public:
  // The streams have no work. Times of the call count from now.
  void start(cudaStream_t stream);
  // Begins a piece of work, which is valid until finish().
  struct Piece {
    WorkRecord record;  // its times are not set
    EventHandle begin, end;
  };
  Piece& begin(const WorkRecord& record, cudaStream_t stream);
  static void end(Piece& piece, cudaStream_t stream) noexcept;
  // All work of the call is done. Adds its records.
  void finish(WorkRecorder& recorder);

 private:
  EventHandle take_event();
  WorkRecord::Clock::duration since_start(const EventHandle& event) const;

  WorkRecord::Clock::time_point start_;
  EventHandle started_;
  std::deque<Piece> pieces_;  // a deque, so that records stay in place
  std::vector<EventHandle> spare_;
};

// A piece of work while it lives; nothing without TimedWork.
class TimedPiece {
 public:
  TimedPiece(TimedWork* work, const WorkRecord& record, cudaStream_t stream) : stream_(stream) {
    if (work != nullptr) piece_ = &work->begin(record, stream);
  }
  ~TimedPiece() {
    if (piece_ != nullptr) TimedWork::end(*piece_, stream_);
  }
  TimedPiece(const TimedPiece&) = delete;
  TimedPiece& operator=(const TimedPiece&) = delete;

 private:
  cudaStream_t stream_;
  TimedWork::Piece* piece_ = nullptr;
};

}  // namespace trainer::backend::cuda
