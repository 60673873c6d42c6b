#include "backend/cuda/collectives/silence_watch.h"

#include <utility>

namespace trainer::backend::cuda {
namespace {

bool is_done(const EventHandle& event) {
  const cudaError_t status = cudaEventQuery(event.get());
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

}  // namespace

SilenceWatch::Call SilenceWatch::take_spare() {
  const std::lock_guard lock(mutex_);
  forget_done();
  if (spare_.empty()) return {create_event(), create_event()};
  Call call = std::move(spare_.back());
  spare_.pop_back();
  call.ended = false;
  call.begun.reset();
  return call;
}

void SilenceWatch::begin(cudaStream_t stream) {
  Call call = take_spare();
  check(cudaEventRecord(call.before.get(), stream), "cudaEventRecord");
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
}

void SilenceWatch::end(cudaStream_t stream) {
  cudaEvent_t after = nullptr;
  {
    const std::lock_guard lock(mutex_);
    after = calls_.back().after.get();
  }
  check(cudaEventRecord(after, stream), "cudaEventRecord");
  const std::lock_guard lock(mutex_);
  calls_.back().ended = true;
}

void SilenceWatch::forget_done() {
  while (!calls_.empty() && calls_.front().ended && is_done(calls_.front().after)) {
    spare_.push_back(std::move(calls_.front()));
    calls_.pop_front();
  }
}

SilenceWatch::Clock::duration SilenceWatch::silence() {
  const std::lock_guard lock(mutex_);
  forget_done();
  if (calls_.empty()) return {};
  Call& oldest = calls_.front();
  if (!oldest.begun) {
    if (!is_done(oldest.before)) return {};
    oldest.begun = Clock::now();
  }
  return Clock::now() - *oldest.begun;
}

}  // namespace trainer::backend::cuda
