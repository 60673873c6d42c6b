#include "backend/cpu/lanes/worker_threads.h"

#include <omp.h>

#include <optional>
#include <utility>

#include "backend/cpu/lanes/on_threads.h"
#include "base/threads/cores.h"

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
  if (round_.load(std::memory_order_acquire) == round) throw WorkerFailed();
}

void Barrier::reset() {
  arrived_ = 0;
  aborted_ = false;
}

WorkerThreads::WorkerThreads(int workers, int threads_per_worker,
                             std::vector<std::vector<int>> cores)
    : threads_per_worker_(threads_per_worker),
      cores_(std::move(cores)),
      team_(workers, [this](int worker) {
        omp_set_num_threads(threads_per_worker_);
        pin(worker);
      }) {}

// OpenMP keeps the threads that it has started for a thread, also those of before.
void WorkerThreads::pin(int worker) const {
  if (cores_.empty()) return;
  on_threads(threads_per_worker_,
             [&](int) { pin_thread(cores_[static_cast<std::size_t>(worker)]); });
}

void WorkerThreads::run(const std::function<void(int)>& work,
                        const std::function<void(int)>& failed) {
  omp_set_num_threads(threads_per_worker_);
  std::optional<Pinned> pinned;
  if (!cores_.empty()) {
    pinned.emplace(cores_.front());
    pin(0);
  }
  team_.run(work, failed);
}

}  // namespace trainer::backend::cpu
