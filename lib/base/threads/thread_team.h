// A fixed team of threads that run the same function at once, as often as needed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace trainer {

// Waits until `condition` holds, which another thread is about to bring about: spins for about 20
// microseconds, then yields the core between checks.
template <class Condition>
void spin_until(const Condition& condition) {
  constexpr int kSpins = 2000;
  for (int i = 0; !condition(); ++i) {
    if (i < kSpins) {
      __builtin_ia32_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

// Thrown by a member that waited for another member that has failed.
class MemberFailed : public PeerError {
 public:
  using PeerError::PeerError;
};

// Returns the message of the exception that is being handled. Call it inside a catch clause.
std::string handled_message();

// Returns the error for a system that cannot start more threads: `started` of the `wanted` threads
// run. `key` is the config key that asks for them.
DeviceError no_thread(const std::system_error& error, std::int64_t started, std::int64_t wanted,
                      const std::string& key);

class ThreadTeam {
 public:
  // Starts members 1 to count - 1; member 0 is the thread that calls run(). `start`, when set, is
  // called first on each new thread with its member number.
  explicit ThreadTeam(int count, std::function<void(int)> start = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int count() const { return static_cast<int>(threads_.size()) + 1; }
  // Runs work(member) on every member at once. Rethrows the error that came first, after all have
  // ended; a MemberFailed only when nobody has thrown anything else. `failed`, when set, is called
  // once the first error is kept, with the member that threw and while its error is handled: it
  // must wake members that wait for it, by making them throw too.
  void run(const std::function<void(int)>& work, const std::function<void(int)>& failed = {});

 private:
  void end_all();
  void serve(int member);
  void work(int member);
  void keep(int member, bool caused);

  std::function<void(int)> start_;
  std::vector<std::thread> threads_;
  const std::function<void(int)>* work_ = nullptr;
  const std::function<void(int)>* failed_ = nullptr;
  std::exception_ptr error_;
  bool caused_ = false;  // error_ is a MemberFailed
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace trainer
