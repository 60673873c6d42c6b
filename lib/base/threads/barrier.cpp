#include "base/threads/barrier.h"

#include <exception>
#include <thread>

#include "base/threads/thread_team.h"

namespace trainer {

template <class Done>
void Barrier::spin(const Done& done) const {
  constexpr int kSpins = 2000, kYields = 200;
  if (waiting_ == Waiting::kSpin) return spin_until(done);
  if (waiting_ == Waiting::kSleep) return;
  for (int i = 0; i < kSpins + kYields && !done(); ++i) {
    if (i < kSpins) {
      __builtin_ia32_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

bool Barrier::wait_until(int parties, Clock::time_point deadline) {
  const std::uint32_t round = round_.load(std::memory_order_acquire);
  throw_if_aborted();
  if (parties <= 1) return true;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties) {
    arrived_.store(0, std::memory_order_relaxed);
    end_round();
    return true;
  }
  const auto done = [&] { return round_.load() != round; };  // abort() ends the round, too
  spin(done);
  if (!done()) {
    std::unique_lock lock(mutex_);
    ++sleepers_;
    if (deadline == Clock::time_point::max()) {
      changed_.wait(lock, done);
    } else {
      changed_.wait_until(lock, deadline, done);
    }
    --sleepers_;
  }
  throw_if_aborted();
  return done();
}

// Threads that spin take no lock: the count of sleepers decides whether the last thread to arrive
// wakes others. A sleeper counts itself before it reads the round, and this function changes the
// round before it reads the count. Both are sequentially consistent, so that no sleeper is missed.
void Barrier::end_round() {
  ++round_;
  if (sleepers_ == 0) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Barrier::abort(std::string_view reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) {
      try {
        reason_ = reason;
      } catch (const std::exception&) {  // there is no memory: without a reason
      }
      aborted_ = true;
    }
  }
  end_round();
}

void Barrier::reset() {
  arrived_ = 0;
  reason_.clear();
  aborted_ = false;
}

void Barrier::throw_if_aborted() const {
  if (aborted_.load(std::memory_order_acquire)) throw MemberFailed(reason_);
}

}  // namespace trainer
