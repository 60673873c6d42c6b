#include "backend/cpu/lanes/lane_threads.h"

#include <omp.h>

#include <optional>
#include <utility>

#include "backend/cpu/lanes/on_threads.h"
#include "base/threads/cores.h"

namespace trainer::backend::cpu {

LaneThreads::LaneThreads(int lanes, int threads_per_lane, std::vector<std::vector<int>> cores)
    : threads_per_lane_(threads_per_lane), cores_(std::move(cores)), team_(lanes, [this](int lane) {
        omp_set_num_threads(threads_per_lane_);
        pin(lane);
      }) {}

// OpenMP keeps the threads that it has started for a thread, so that all of them stay pinned.
void LaneThreads::pin(int lane) const {
  if (cores_.empty()) return;
  on_threads(threads_per_lane_, [&](int) { pin_thread(cores_[lane]); });
}

void LaneThreads::run(const std::function<void(int)>& work,
                      const std::function<void(int)>& failed) {
  omp_set_num_threads(threads_per_lane_);
  std::optional<Pinned> pinned;
  if (!cores_.empty()) {
    pinned.emplace(cores_.front());
    pin(0);
  }
  team_.run(work, failed);
}

}  // namespace trainer::backend::cpu
