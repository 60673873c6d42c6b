// Lanes: worker threads that each compute a micro-batch of their own, side by side.
//
// One thread a core with single-threaded primitives needs no barrier inside a layer, keeps each
// core's caches warm, and sums in an order that does not depend on timing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/thread_team.h"

namespace trainer::backend::cpu {

// What lanes throw that waited for one that failed.
struct LaneFailed {};

// Waits by spinning, then by yielding: lanes meet many times a millisecond.
class Barrier {
 public:
  // Blocks until `parties` threads have called wait. All callers pass the same number. Throws
  // LaneFailed once abort() was called.
  void wait(int parties);
  // From any thread. The barrier is of no use until reset(), which no thread may wait during.
  void abort() { aborted_.store(true, std::memory_order_release); }
  void reset();

 private:
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> round_{0};  // wraps
  std::atomic<bool> aborted_{false};
};

class Lanes {
 public:
  // `threads_per_lane` bounds what a primitive may use inside a lane. Lane i stays on cores[i],
  // when there are any, lane 0, the calling thread, excepted.
  Lanes(int lanes, int threads_per_lane, const std::vector<int>& cores = {});

  int count() const { return team_.count(); }
  int threads_per_lane() const { return threads_per_lane_; }
  // A lane's threads for our own kernels, run() by the lane; null when it has but one.
  ThreadTeam* threads_of(int lane) const;
  // As ThreadTeam::run.
  void run(const std::function<void(int)>& work, const std::function<void(int)>& failed = {});

 private:
  int threads_per_lane_;
  std::vector<std::unique_ptr<ThreadTeam>> threads_;  // of each lane
  ThreadTeam team_;
};

}  // namespace trainer::backend::cpu
