#include "base/numbers/statistics.h"

#include <doctest/doctest.h>

namespace trainer {

TEST_CASE("median is the middle value of an odd count and the mean of the two of an even count") {
  CHECK(median({5}) == 5);
  CHECK(median({9, 1, 4}) == 4);
  CHECK(median({8, 1, 2, 100}) == 5);
}

}  // namespace trainer
