#include "backend/cpu/lanes.h"

#include <omp.h>

#include <chrono>
#include <exception>

namespace trainer::backend::cpu {
namespace {

// About 20 microseconds of spinning before a waiting thread gives its core away.
constexpr int kSpins = 2000;

template <class Condition>
void spin_until(const Condition& condition) {
  for (int i = 0; !condition(); ++i) {
    if (i < kSpins) {
      __builtin_ia32_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

void Barrier::wait(int parties) {
  if (parties <= 1) return;
  const int round = round_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    return;
  }
  spin_until([&] { return round_.load(std::memory_order_acquire) != round; });
}

Lanes::Lanes(int lanes, int threads_per_lane) : threads_per_lane_(threads_per_lane) {
  errors_.resize(static_cast<std::size_t>(lanes));
  for (int lane = 1; lane < lanes; ++lane) workers_.emplace_back([this, lane] { serve(lane); });
}

Lanes::~Lanes() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Lanes::run(const std::function<void(int)>& work) {
  work_ = &work;
  for (std::exception_ptr& error : errors_) error = nullptr;
  running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  {
    std::lock_guard lock(mutex_);
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  omp_set_num_threads(threads_per_lane_);
  try {
    work(0);
  } catch (...) {
    errors_[0] = std::current_exception();
  }
  spin_until([&] { return running_.load(std::memory_order_acquire) == 0; });
  for (const std::exception_ptr& error : errors_) {
    if (error) std::rethrow_exception(error);
  }
}

void Lanes::serve(int lane) {
  omp_set_num_threads(threads_per_lane_);
  std::uint64_t seen = 0;
  for (;;) {
    // Steps follow each other closely while training: look for work a while before sleeping.
    for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == seen; ++i) {
      __builtin_ia32_pause();
    }
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || generation_.load() != seen; });
    }
    if (stop_) return;
    ++seen;
    try {
      (*work_)(lane);
    } catch (...) {
      errors_[static_cast<std::size_t>(lane)] = std::current_exception();
    }
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace trainer::backend::cpu
