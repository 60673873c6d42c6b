#include "backend/cuda/collectives/launch_window.h"

#include <utility>

#include "backend/cuda/runtime.h"

namespace trainer::backend::cuda {

bool LaunchWindow::open(TimePoint limit) {
  if (ranks_ < 2) return true;
  std::unique_lock lock(mutex_);
  if (failed_) return false;
  const std::uint64_t before = opened_;
  if (++arrived_ < ranks_) {
    changed_.wait_until(lock, limit, [&] { return opened_ != before || failed_; });
    return opened_ != before;
  }
  lock.unlock();  // fail() must not wait for memory calls
  if (!hold_memory_calls([this] { return failed_.load(); })) return false;
  lock.lock();
  if (failed_) {
    release_memory_calls();
    return false;
  }
  arrived_ = 0;
  is_open_ = true;
  ++opened_;
  changed_.notify_all();
  return true;
}

bool LaunchWindow::close(TimePoint limit) {
  if (ranks_ < 2) return true;
  std::unique_lock lock(mutex_);
  if (failed_) return false;
  const std::uint64_t before = closed_;
  if (++launched_ < ranks_) {
    changed_.wait_until(lock, limit, [&] { return closed_ != before || failed_; });
    return closed_ != before;
  }
  launched_ = 0;
  is_open_ = false;
  release_memory_calls();
  ++closed_;
  changed_.notify_all();
  return true;
}

void LaunchWindow::fail() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  if (std::exchange(is_open_, false)) release_memory_calls();
  changed_.notify_all();
}

}  // namespace trainer::backend::cuda
