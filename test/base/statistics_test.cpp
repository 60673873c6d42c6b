#include "base/numbers/statistics.h"

#include <doctest/doctest.h>

namespace trainer {

TEST_CASE("median: an odd count, the middle value, and an even count, the mean of two") {
  CHECK(median({5}) == 5);
  CHECK(median({9, 1, 4}) == 4);
  CHECK(median({8, 1, 2, 100}) == 5);
}

}  // namespace trainer
