// A barrier that can be aborted, for threads that meet often.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace trainer {

// Threads wait until as many as were announced have arrived; the barrier is then ready for the next
// round. All functions but reset() are thread-safe.
class Barrier {
 public:
  using Clock = std::chrono::steady_clock;

  // What a waiting thread does; the users of a barrier differ in nothing else. Lanes meet many
  // times per millisecond and spin. Replicas of a process spin before they sleep. Ranks that share
  // a GPU sleep until a deadline, because the GPU works meanwhile.
  enum class Waiting {
    kSpin,           // spins for about 20 microseconds, then yields the core between checks
    kSpinThenSleep,  // spins as long, yields a few times and sleeps
    kSleep           // sleeps at once
  };

  explicit Barrier(Waiting waiting) : waiting_(waiting) {}

  // Blocks until `parties` threads have called it in this round. All callers of a round pass the
  // same number. Throws MemberFailed with the reason of abort() if the barrier is aborted.
  void wait(int parties) { static_cast<void>(wait_until(parties, Clock::time_point::max())); }
  // Does the same until `deadline`; returns false if not all threads have arrived by then. The
  // barrier must then be aborted or reset. Only a barrier that sleeps heeds the deadline.
  [[nodiscard]] bool wait_until(int parties, Clock::time_point deadline);

  // Makes all threads that wait, and all that come later, throw. The first reason is kept.
  void abort(std::string_view reason) noexcept;
  // Makes an aborted barrier usable again. No other thread may use it meanwhile.
  void reset();

 private:
  template <class Done>
  void spin(const Done& done) const;
  void end_round();
  void throw_if_aborted() const;

  const Waiting waiting_;
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> round_{0};  // wraps
  std::atomic<bool> aborted_{false};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string reason_;  // set before aborted_, and not again before reset()
};

}  // namespace trainer
