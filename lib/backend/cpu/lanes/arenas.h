// Memory for activations.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/memory.h"

namespace trainer::backend::cpu {

// One arena a worker, shared by all executables of a backend: only one of
// them runs at a time.
class Arenas {
 public:
  explicit Arenas(int workers) : memory_(static_cast<std::size_t>(workers)) {}
  // At least `bytes` for this worker. Arenas handed out before stay valid.
  char* get(int worker, std::int64_t bytes);
  std::int64_t bytes() const;

 private:
  std::vector<std::vector<Memory>> memory_;
};

}  // namespace trainer::backend::cpu
