#include "backend/cpu/lanes/arenas.h"

#include <algorithm>

namespace trainer::backend::cpu {

char* Arenas::get(int lane, std::int64_t bytes) {
  std::vector<Memory>& blocks = memory_[lane];
  for (const Memory& memory : blocks) {
    if (memory.bytes() >= bytes) return memory.data();
  }
  blocks.emplace_back(std::max<std::int64_t>(bytes, kAlignment));
  return blocks.back().data();
}

std::int64_t Arenas::bytes() const {
  std::int64_t total = 0;
  for (const std::vector<Memory>& lane : memory_) {
    for (const Memory& memory : lane) total += memory.bytes();
  }
  return total;
}

}  // namespace trainer::backend::cpu
