// Plans the offsets of a program's buffers in one block of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainer::backend {

// A buffer that is used from instruction `first` to instruction `last`.
struct Lifetime {
  std::int64_t bytes = 0;
  int first = 0, last = 0;
};

struct ArenaPlan {
  std::vector<std::int64_t> offsets;  // one per buffer
  std::int64_t bytes = 0;
};

// First fit, largest buffer first: a buffer gets the lowest offset that no buffer with an
// overlapping lifetime occupies. Offsets are multiples of `alignment` bytes.
ArenaPlan plan_arena(std::span<const Lifetime> buffers, std::int64_t alignment);

}  // namespace trainer::backend
