#include "backend/cuda/telemetry/timed_work.h"

#include <chrono>
#include <utility>

namespace trainer::backend::cuda {

EventHandle TimedWork::take_event() {
  if (spare_.empty()) return create_timing_event();
  EventHandle event = std::move(spare_.back());
  spare_.pop_back();
  return event;
}

void TimedWork::start(cudaStream_t stream) {
  for (Piece& piece : pieces_) {  // of a call that failed
    spare_.push_back(std::move(piece.begin));
    spare_.push_back(std::move(piece.end));
  }
  pieces_.clear();
  if (!started_) started_ = create_timing_event();
  start_ = WorkRecord::Clock::now();
  check(cudaEventRecord(started_.get(), stream), "cudaEventRecord");
}

TimedWork::Piece& TimedWork::begin(const WorkRecord& record, cudaStream_t stream) {
  Piece& piece = pieces_.emplace_back(Piece{record, take_event(), take_event()});
  check(cudaEventRecord(piece.begin.get(), stream), "cudaEventRecord");
  return piece;
}

// An error is ignored here, because the calls that follow return it too.
void TimedWork::end(Piece& piece, cudaStream_t stream) noexcept {
  cudaEventRecord(piece.end.get(), stream);
}

void TimedWork::finish(WorkRecorder& recorder) {
  for (Piece& piece : pieces_) {
    piece.record.start = start_ + since_start(piece.begin);
    piece.record.end = start_ + since_start(piece.end);
    recorder.add(piece.record);
    spare_.push_back(std::move(piece.begin));
    spare_.push_back(std::move(piece.end));
  }
  pieces_.clear();
}

WorkRecord::Clock::duration TimedWork::since_start(const EventHandle& event) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, started_.get(), event.get()), "cudaEventElapsedTime");
  return std::chrono::duration_cast<WorkRecord::Clock::duration>(
      std::chrono::duration<double, std::milli>(static_cast<double>(milliseconds)));
}

}  // namespace trainer::backend::cuda
