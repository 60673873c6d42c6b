// How a number of things is divided among ranks.
#pragma once

#include <cstdint>

namespace trainer {

struct Part {
  std::int64_t first = 0, count = 0;
};

// The part of `rank`: no two parts differ by more than one, and with fewer things than ranks some
// are empty. Whole multiples nest: part r of R holds parts 2r and 2r + 1 of 2R.
inline Part part_of(std::int64_t count, std::int64_t rank, std::int64_t ranks) {
  const std::int64_t first = count * rank / ranks;
  return {first, count * (rank + 1) / ranks - first};
}

}  // namespace trainer
