// The memory of activations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/memory.h"

namespace trainer::backend::cpu {

// Arenas per lane, which all executables of a backend share, because only one of them runs at a
// time.
class Arenas {
 public:
  explicit Arenas(int lanes) : memory_(lanes) {}
  // Returns at least `bytes` of memory for this lane. Earlier results stay valid.
  char* get(int lane, std::int64_t bytes) {
    std::vector<Memory>& blocks = memory_[lane];
    for (const Memory& memory : blocks) {
      if (memory.bytes() >= bytes) return memory.data();
    }
    blocks.emplace_back(std::max<std::int64_t>(bytes, kAlignment));
    return blocks.back().data();
  }
  std::int64_t bytes() const {
    std::int64_t total = 0;
    for (const std::vector<Memory>& lane : memory_) {
      for (const Memory& memory : lane) total += memory.bytes();
    }
    return total;
  }

 private:
  std::vector<std::vector<Memory>> memory_;
};

}  // namespace trainer::backend::cpu
