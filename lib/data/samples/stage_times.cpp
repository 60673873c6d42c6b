#include "data/samples/stage_times.h"

#include <numeric>
#include <stdexcept>

namespace trainer::data {
namespace {

thread_local StageWatch* watch = nullptr;

}  // namespace

StageWatch::StageWatch() {
  if (watch != nullptr) throw std::logic_error("stage times: this thread has a StageWatch already");
  watch = this;
}

StageWatch::~StageWatch() { watch = nullptr; }

double StageWatch::seconds() const {
  return std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
}

StageTimer::StageTimer(ReadStage stage) : watch_(watch), stage_(stage) {
  if (watch_ != nullptr) start_ = std::chrono::steady_clock::now();
}

StageTimer::~StageTimer() {
  if (watch_ == nullptr) return;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  watch_->seconds_[static_cast<std::size_t>(stage_)] += passed.count();
}

}  // namespace trainer::data
