// What `trainer find` makes of its measurements.
#include "commands/find/find.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

namespace trainer::commands {
namespace {

// A loss that is flat up to 1e-4, falls by the logarithm to 1e-1, and rises from there.
double valley(double exponent) {
  double loss = 2.3;
  if (exponent > -4) loss -= 0.2 * (std::min(exponent, -1.0) + 4);
  if (exponent > -2.5) loss -= 0.8 * (std::min(exponent, -1.5) + 2.5);
  if (exponent > -1) loss += 3 * (exponent + 1);
  return loss;
}

// The rates of a test by default, with losses as functions of the decimal logarithm of the rate.
template <typename Loss>
RangeTest drawn(Loss loss, double last = 1) {
  RangeTest test;
  for (int i = 0; i < 100; ++i) {
    const double exponent = -7 + 8.0 * i / 99;
    if (exponent > last + 1e-9) break;
    test.points.push_back({std::pow(10, exponent), loss(exponent)});
  }
  return test;
}

std::optional<double> suggestion(RangeTest test) {
  suggest_rate(test);
  return test.suggestion;
}

TEST_CASE("suggest_rate takes a tenth of the rate of the lowest loss") {
  const std::optional<double> rate = suggestion(drawn(valley));
  REQUIRE(rate);
  CHECK(*rate > 2e-3);
  CHECK(*rate < 2e-2);
}

TEST_CASE("suggest_rate takes no rate below 1e-4 for a loss whose first batches are noise") {
  int none = 0;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    std::minstd_rand random(seed);
    // A spike, then noise of 0.1 around a loss that a network hardly lowers.
    RangeTest test = drawn([&](double exponent) {
      const double noise = 0.2 * static_cast<double>(random()) / std::minstd_rand::max() - 0.1;
      return 1.6 + noise + (exponent < -6.8 ? 0.5 : 0) + std::max(0.0, 2 * exponent);
    });
    const std::optional<double> rate = suggestion(test);
    none += !rate;
    CHECK(rate.value_or(1e-2) > 1e-3);
    CHECK(rate.value_or(1e-2) < 1);
  }
  CHECK(none <= 12);  // of 50, a quarter
}

TEST_CASE("suggest_rate takes no notice of single batches of large loss") {
  RangeTest test = drawn(valley);
  for (const std::size_t i : {52, 60, 67}) test.points[i].loss = 10;
  const std::optional<double> rate = suggestion(test);
  REQUIRE(rate);
  CHECK(*rate > 2e-3);
  CHECK(*rate < 2e-2);
}

TEST_CASE("suggest_rate takes no notice of a fall after a peak that a large rate caused") {
  const std::optional<double> rate = suggestion(drawn([](double exponent) {
    return exponent < 0.3 ? valley(exponent) : valley(0.3) - 3 * (exponent - 0.3);
  }));
  REQUIRE(rate);
  CHECK(*rate < 2e-2);
}

TEST_CASE("suggest_rate takes the end of a test that diverges for the rise") {
  RangeTest test = drawn(valley, -0.9);
  CHECK_FALSE(suggestion(test));
  test.diverged = true;
  const std::optional<double> rate = suggestion(test);
  REQUIRE(rate);
  CHECK(*rate > 2e-3);
  CHECK(*rate < 2e-2);
}

TEST_CASE("suggest_rate gives nothing where the loss does not fall or does not rise") {
  CHECK_FALSE(suggestion({}));
  CHECK_FALSE(suggestion(drawn([](double) { return 2.0; })));
  CHECK_FALSE(suggestion(drawn([](double exponent) { return -exponent; })));
  RangeTest rising = drawn([](double exponent) { return 10 + exponent; });
  CHECK_FALSE(suggestion(rising));
  int suggested = 0;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::minstd_rand random(seed);
    suggested += suggestion(drawn([&](double) { return static_cast<double>(random()); })) ? 1 : 0;
  }
  CHECK(suggested <= 1);
  rising.diverged = true;
  std::ostringstream out;
  print_range_test(rising, out);
  CHECK(out.str().find("the loss diverges beyond 10") != std::string::npos);
  CHECK(out.str().find("no clear minimum") != std::string::npos);
}

TEST_CASE("find charts: the suggestion is marked") {
  RangeTest test = drawn(valley);
  CHECK_FALSE(make_chart(test).mark);
  test.suggestion = 0.00316228;
  const results::Chart rates = make_chart(test);
  REQUIRE(rates.mark);
  CHECK(rates.mark->x == 0.00316228);
  CHECK(results::line_chart(rates).find(">suggestion 0.00316</text>") != std::string::npos);
  BatchSizes sizes;
  sizes.points = {{8, 100, 0, 0, 0}, {16, 180, 0, 0, 0}};
  CHECK_FALSE(make_chart(sizes).mark);
  sizes.knee = 16;
  CHECK(results::line_chart(make_chart(sizes)).find(">suggestion 16</text>") != std::string::npos);
}

TEST_CASE("find_knee finds the smallest batch that is nearly as fast as the fastest") {
  CHECK(find_knee(
            {{8, 100, 0, 0, 0}, {16, 180, 0, 0, 0}, {32, 192, 0, 0, 0}, {64, 200, 0, 0, 0}}) == 32);
  CHECK(find_knee({{8, 200, 0, 0, 0}, {16, 150, 0, 0, 0}}) == 8);
  CHECK(find_knee({}) == 0);
}

}  // namespace
}  // namespace trainer::commands
