// What `trainer find` makes of its measurements.
#include "commands/find/find.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "commands/find/find_chart.h"

namespace trainer::commands {
namespace {

using Points = std::vector<RangeTest::Point>;

// A loss that is flat up to 1e-4, falls evenly by the logarithm to 1e-1, steepest around 1e-2, and
// rises from there.
Points valley() {
  Points points;
  for (int i = 0; i <= 80; ++i) {
    const double exponent = -6 + 0.1 * i;
    double loss = 2.3;
    if (exponent > -4) loss -= 0.2 * (std::min(exponent, -1.0) + 4);
    if (exponent > -2.5) loss -= 0.8 * (std::min(exponent, -1.5) + 2.5);
    if (exponent > -1) loss += 3 * (exponent + 1);
    points.push_back({std::pow(10, exponent), loss, loss});
  }
  return points;
}

TEST_CASE("suggest_rate: the rate at which the loss falls fastest") {
  const std::optional<double> rate = suggest_rate(valley());
  REQUIRE(rate);
  CHECK(*rate > 3e-3);
  CHECK(*rate < 3e-2);
}

TEST_CASE("suggest_rate: a fall after a peak that a large rate caused, ignored") {
  Points points = valley();
  for (int i = 0; i < 15; ++i) {
    RangeTest::Point next = points.back();
    next.rate *= 1.26;
    next.smoothed -= 0.5;
    points.push_back(next);
  }
  const std::optional<double> rate = suggest_rate(points);
  REQUIRE(rate);
  CHECK(*rate < 3e-2);
}

TEST_CASE("suggest_rate: a loss that never falls, no suggestion") {
  Points rising = valley();
  for (std::size_t i = 0; i < rising.size(); ++i) {
    rising[i].smoothed = 2 + 0.1 * static_cast<double>(i);
  }
  CHECK_FALSE(suggest_rate(rising));
  CHECK_FALSE(suggest_rate({}));
  RangeTest test;
  test.points = rising;
  test.diverged = true;
  std::ostringstream out;
  print_range_test(test, "optimizer.adam.learning_rate", out);
  CHECK(out.str().find("the loss diverges beyond 100") != std::string::npos);
  CHECK(out.str().find("no suggestion") != std::string::npos);
}

TEST_CASE("find charts: the suggestion is marked") {
  RangeTest test;
  test.points = valley();
  CHECK_FALSE(make_chart(test).mark);
  test.suggestion = 0.00316228;
  const Chart rates = make_chart(test);
  REQUIRE(rates.mark);
  CHECK(rates.mark->x == 0.00316228);
  CHECK(line_chart(rates).find(">suggestion 0.00316</text>") != std::string::npos);
  BatchSizes sizes;
  sizes.points = {{8, 100, 0, 0, 0}, {16, 180, 0, 0, 0}};
  CHECK_FALSE(make_chart(sizes).mark);
  sizes.knee = 16;
  CHECK(line_chart(make_chart(sizes)).find(">suggestion 16</text>") != std::string::npos);
}

TEST_CASE("find_knee: the smallest batch that is nearly as fast as the fastest") {
  CHECK(find_knee(
            {{8, 100, 0, 0, 0}, {16, 180, 0, 0, 0}, {32, 192, 0, 0, 0}, {64, 200, 0, 0, 0}}) == 32);
  CHECK(find_knee({{8, 200, 0, 0, 0}, {16, 150, 0, 0, 0}}) == 8);
  CHECK(find_knee({}) == 0);
}

}  // namespace
}  // namespace trainer::commands
