#include "base/numbers/partition.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace trainer {

TEST_CASE(
    "partition makes contiguous parts whose sizes differ by at most one, for any count and parts") {
  for (const std::int64_t n : {0, 1, 5, 7, 64, 1000}) {
    for (const std::int64_t k : {1, 2, 3, 7, 8}) {
      CAPTURE(n);
      CAPTURE(k);
      std::int64_t next = 0, least = n, most = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const Partition mine = partition(n, k, i);
        CHECK(mine.first == next);
        next += mine.count;
        least = std::min(least, mine.count);
        most = std::max(most, mine.count);
      }
      CHECK(next == n);
      CHECK(most - least <= 1);
    }
  }
}

TEST_CASE("partition: two of twice as many parts make one part") {
  for (std::int64_t i = 0; i < 3; ++i) {
    const Partition whole = partition(100, 3, i);
    const Partition left = partition(100, 6, 2 * i), right = partition(100, 6, 2 * i + 1);
    CHECK(left.first == whole.first);
    CHECK(right.first == left.first + left.count);
    CHECK(left.count + right.count == whole.count);
  }
}

TEST_CASE(
    "aligned_partition: parts start at multiples of the alignment, the last ones are shorter") {
  for (const std::int64_t n : {0, 1, 15, 16, 17, 64, 100, 1000}) {
    for (const std::int64_t k : {1, 2, 3, 8}) {
      CAPTURE(n);
      CAPTURE(k);
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const Partition mine = aligned_partition(n, k, i, 16);
        CHECK(mine.first == next);
        if (mine.count > 0) CHECK(mine.first % 16 == 0);
        next += mine.count;
      }
      CHECK(next == n);
    }
  }
  CHECK(aligned_partition(100, 3, 0, 16).count == 48);
  CHECK(aligned_partition(100, 3, 2, 16).count == 4);
  CHECK(aligned_partition(20, 3, 2, 16).count == 0);
}

TEST_CASE("partition does not overflow at 2^32 samples") {
  const std::int64_t n = std::int64_t{1} << 32;
  CHECK(partition(n, 1024, 1023).first == n / 1024 * 1023);
  CHECK(partition(n, 1024, 1023).count == n / 1024);
}

}  // namespace trainer
