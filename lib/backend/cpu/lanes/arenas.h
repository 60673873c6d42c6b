// The memory of activations.
#pragma once

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
  char* get(int lane, std::int64_t bytes);
  std::int64_t bytes() const;

 private:
  std::vector<std::vector<Memory>> memory_;
};

}  // namespace trainer::backend::cpu
