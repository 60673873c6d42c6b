#include "commands/sweep/eta.h"

#include <doctest/doctest.h>

namespace trainer::commands {

TEST_CASE("Eta counts the first point at the speed that it has once its features are known") {
  Eta eta(3);
  eta.start(100);
  CHECK_FALSE(eta.between());
  eta.advance(0.01, 102);  // 2 s before the first step
  CHECK_FALSE(eta.within());
  // The first tenth takes 40 s, and the rest 10 s per tenth.
  eta.advance(0.1, 142);
  for (int tenth = 2; tenth <= 10; ++tenth) {
    eta.advance(tenth / 10.0, 142 + 10.0 * (tenth - 1));
    if (tenth == 4) CHECK(*eta.within() == doctest::Approx(60 + 2 * (2 + 100)));
  }
  eta.end(true, 235);  // 3 s after the last step
  CHECK(*eta.between() == doctest::Approx(2 * (2 + 100 + 3)));
  eta.start(235);
  eta.end(true, 335);
  CHECK(*eta.between() == doctest::Approx((105 + 100) / 2.0));
  eta.end(false, 335);
  CHECK(*eta.between() == 0);
}

}  // namespace trainer::commands
