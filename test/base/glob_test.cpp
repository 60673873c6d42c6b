#include "base/glob.h"

#include <doctest/doctest.h>

namespace trainer {

TEST_CASE("* is any text, ? one character, the rest itself") {
  CHECK(matches("block5_*", "block5_conv1"));
  CHECK(matches("*", ""));
  CHECK(matches("*_conv?", "block5_conv1"));
  CHECK(matches("a*b*c", "a1b2b3c"));
  CHECK(matches("conv", "conv"));
  CHECK_FALSE(matches("conv", "conv1"));
  CHECK_FALSE(matches("*_conv?", "block5_conv"));
  CHECK_FALSE(matches("a*b*c", "a1b2b3"));
  CHECK_FALSE(matches("", "a"));
}

}  // namespace trainer
