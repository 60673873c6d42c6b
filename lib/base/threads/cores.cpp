#include "base/threads/cores.h"

namespace trainer {

std::vector<int> available_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void pin_thread(std::span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

Pinned::Pinned(std::span<const int> cores) {
  CPU_ZERO(&before_);
  ::sched_getaffinity(0, sizeof before_, &before_);
  pin_thread(cores);
}

Pinned::~Pinned() {
  if (CPU_COUNT(&before_) > 0) ::sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace trainer
