// The threads of the lanes (parallel.lanes). Each lane computes a micro-batch of its own, side by
// side with the other lanes.
//
// One lane per core with single-threaded primitives needs no barrier inside a layer, keeps the
// caches of each core warm, and sums in an order that does not depend on timing.
#pragma once

#include <functional>
#include <vector>

#include "base/threads/thread_team.h"

namespace trainer::backend::cpu {

class LaneThreads {
 public:
  // Starts the first thread of each lane but lane 0, whose first thread is the one that calls
  // run(). `threads_per_lane` is the number of OpenMP threads of an instruction. The threads of
  // lane i stay on cores[i], those of lane 0 while run() lasts; they may run anywhere if `cores` is
  // empty.
  LaneThreads(int lanes, int threads_per_lane, std::vector<std::vector<int>> cores = {});

  int count() const { return team_.count(); }
  int threads_per_lane() const { return threads_per_lane_; }
  // Calls work(lane) on all lanes at once, with the contract of ThreadTeam::run().
  void run(const std::function<void(int)>& work, const std::function<void(int)>& failed = {});

 private:
  void pin(int lane) const;

  int threads_per_lane_;
  std::vector<std::vector<int>> cores_;  // one list per lane, or none
  ThreadTeam team_;
};

}  // namespace trainer::backend::cpu
