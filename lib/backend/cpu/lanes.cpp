#include "backend/cpu/lanes.h"

#include <omp.h>

#include "base/cores.h"

namespace trainer::backend::cpu {

void Barrier::wait(int parties) {
  if (parties <= 1) return;
  const std::uint32_t round = round_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    return;
  }
  spin_until([&] {
    return round_.load(std::memory_order_acquire) != round ||
           aborted_.load(std::memory_order_acquire);
  });
  if (round_.load(std::memory_order_acquire) == round) throw LaneFailed();
}

void Barrier::reset() {
  arrived_ = 0;
  aborted_ = false;
}

Lanes::Lanes(int lanes, int threads_per_lane, const std::vector<int>& cores)
    : threads_per_lane_(threads_per_lane), team_(lanes, [=](int lane) {
        omp_set_num_threads(threads_per_lane);
        if (!cores.empty()) pin_thread(cores[static_cast<std::size_t>(lane) % cores.size()]);
      }) {
  for (int lane = 0; lane < lanes && threads_per_lane > 1; ++lane) {
    threads_.push_back(std::make_unique<ThreadTeam>(threads_per_lane));
  }
}

ThreadTeam* Lanes::threads_of(int lane) const {
  return threads_.empty() ? nullptr : threads_[static_cast<std::size_t>(lane)].get();
}

void Lanes::run(const std::function<void(int)>& work, const std::function<void(int)>& failed) {
  omp_set_num_threads(threads_per_lane_);
  team_.run(work, failed);
}

}  // namespace trainer::backend::cpu
