// Divides n items among k takers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trainer {

// The half-open range [first, first + count).
struct Partition {
  std::int64_t first = 0, count = 0;
};

// Returns partition i of k of n items. The partitions follow each other without a gap. Their sizes
// differ by one at most, and with fewer items than takers some are empty. Multiples of k nest:
// partition i of k holds the partitions 2i and 2i + 1 of 2k.
inline Partition partition(std::int64_t n, std::int64_t k, std::int64_t i) {
  const std::int64_t first = n * i / k;
  return {first, n * (i + 1) / k - first};
}

// Returns partition i of k of n items, in multiples of `alignment` items. All partitions have the
// same size until no items are left.
inline Partition aligned_partition(std::int64_t n, std::int64_t k, std::int64_t i,
                                   std::int64_t alignment) {
  const std::int64_t size = ((n + k - 1) / k + alignment - 1) / alignment * alignment;
  const std::int64_t first = std::min(n, i * size);
  return {first, std::min(n, first + size) - first};
}

}  // namespace trainer
