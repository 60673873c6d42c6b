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

void SilenceWatch::begin(cudaStream_t stream) {
  forget_done();
  Call call;
  if (spare_.empty()) {
    call.before = create_event();
    call.after = create_event();
  } else {
    call = std::move(spare_.back());
    spare_.pop_back();
  }
  call.ended = call.begun = false;
  check(cudaEventRecord(call.before.get(), stream), "cudaEventRecord");
  calls_.push_back(std::move(call));
}

void SilenceWatch::end(cudaStream_t stream) {
  check(cudaEventRecord(calls_.back().after.get(), stream), "cudaEventRecord");
  calls_.back().ended = true;
}

void SilenceWatch::forget_done() {
  while (!calls_.empty() && calls_.front().ended && is_done(calls_.front().after)) {
    spare_.push_back(std::move(calls_.front()));
    calls_.pop_front();
  }
}

SilenceWatch::Clock::duration SilenceWatch::silence() {
  forget_done();
  if (calls_.empty()) return {};
  Call& oldest = calls_.front();
  if (!oldest.begun) {
    if (!is_done(oldest.before)) return {};
    oldest.begun = true;
    oldest.since = Clock::now();
  }
  return Clock::now() - oldest.since;
}

}  // namespace trainer::backend::cuda
