// Worker threads that each compute a micro-batch of their own, side by side: a lane of the config
// (parallel.lanes) is one of them.
//
// One thread a core with single-threaded primitives needs no barrier inside a layer, keeps each
// core's caches warm, and sums in an order that does not depend on timing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/threads/thread_team.h"

namespace trainer::backend::cpu {

// Thrown by workers that waited for one that failed.
struct WorkerFailed {};

// Waits by spinning, then by yielding: workers meet many times a millisecond.
class Barrier {
 public:
  // Blocks until `parties` threads have called wait. All callers pass the same number. Throws
  // WorkerFailed once abort() was called.
  void wait(int parties);
  // From any thread. The barrier is of no use until reset(), which no thread may wait during.
  void abort() { aborted_.store(true, std::memory_order_release); }
  void reset();

 private:
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> round_{0};  // wraps
  std::atomic<bool> aborted_{false};
};

class WorkerThreads {
 public:
  // `threads_per_worker`: OpenMP's threads of a step inside a worker. Worker i and its threads stay
  // on cores[i] if `cores` is not empty; worker 0, the thread that calls run(), does so for as long
  // as that takes.
  WorkerThreads(int workers, int threads_per_worker, std::vector<std::vector<int>> cores = {});

  int count() const { return team_.count(); }
  int threads_per_worker() const { return threads_per_worker_; }
  // Runs a function on all worker threads, as ThreadTeam::run().
  void run(const std::function<void(int)>& work, const std::function<void(int)>& failed = {});

 private:
  void pin(int worker) const;

  int threads_per_worker_;
  std::vector<std::vector<int>> cores_;  // of each worker; none: anywhere
  ThreadTeam team_;
};

}  // namespace trainer::backend::cpu
