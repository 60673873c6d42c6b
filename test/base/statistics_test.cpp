#include "base/numbers/statistics.h"

#include <doctest/doctest.h>

namespace trainer {

TEST_CASE("the median is the middle value, the mean of two for an even count") {
  CHECK(median({5}) == 5);
  CHECK(median({9, 1, 4}) == 4);
  CHECK(median({8, 1, 2, 100}) == 5);
}

}  // namespace trainer
