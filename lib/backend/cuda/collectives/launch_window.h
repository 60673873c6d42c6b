// The time in which the ranks of a process launch a collective.
// Reasons: lib/decisions/backend.md#one-process-trains-on-all-gpus-of-a-machine.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace trainer::backend::cuda {

// The kernel of a collective runs until all ranks have launched theirs. A memory call between two
// of these launches waits for the kernel and keeps the other ranks from launching, so it never
// returns. A window opens once all ranks of the process are about to launch and no MemoryCall is in
// progress, and closes once all have launched. MemoryCalls wait while it is open. Thread-safe.
class LaunchWindow {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit LaunchWindow(std::size_t ranks) : ranks_(ranks) {}
  ~LaunchWindow() { fail(); }
  LaunchWindow(const LaunchWindow&) = delete;
  LaunchWindow& operator=(const LaunchWindow&) = delete;

  // Each rank calls open(), launches, and calls close(); both wait for the other ranks. They return
  // false if a rank has not called by `limit`, or after fail(). A rank must make no memory call in
  // between.
  bool open(TimePoint limit);
  bool close(TimePoint limit);
  // Ends all waits. Memory calls are not held again.
  void fail();

 private:
  std::size_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0, launched_ = 0;
  std::uint64_t opened_ = 0, closed_ = 0;
  bool is_open_ = false;
  std::atomic<bool> failed_{false};
};

}  // namespace trainer::backend::cuda
