#include "base/threads/parallel.h"

#include <algorithm>
#include <atomic>

#include "base/threads/cores.h"
#include "base/threads/thread_team.h"

namespace trainer {

void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work) {
  if (count == 0) return;
  std::atomic<std::size_t> next{0};
  ThreadTeam team(static_cast<int>(std::min<std::size_t>(count, usable_core_count())));
  team.run(
      [&](int) {
        for (std::size_t i = next++; i < count; i = next++) work(i);
      },
      [&](int) { next = count; });
}

}  // namespace trainer
