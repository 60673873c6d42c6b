#include "results/page/text_chart.h"

#include <doctest/doctest.h>

#include <cmath>

namespace trainer::results {
namespace {

using Lines = std::vector<std::string>;

Chart make_chart(std::vector<Series> series) {
  Chart chart;
  chart.title = "Loss";
  chart.series = std::move(series);
  return chart;
}

TEST_CASE("text_chart draws the longest series as an area and the others as points") {
  const Chart chart =
      make_chart({{"validation", {{4, 8}}}, {"train", {{0, 8}, {1, 6}, {2, 4}, {3, 2}, {7, 1}}}});
  CHECK(text_chart(chart, {17, 2, true}) == Lines{"Loss: train, • va",  //
                                                  "       8 █▄  •   ",  //
                                                  "       1 ██▇▃▃▃▃▁"});
  CHECK(text_chart(chart, {17, 2, false}) == Lines{"Loss: train, o va",  //
                                                   "       8 #:  o   ",  //
                                                   "       1 ###::::."});
}

TEST_CASE("text_chart averages the points of a column and leaves out gaps") {
  Series series{"train", {}};
  for (int i = 0; i < 80; ++i) series.points.emplace_back(i, i % 2 == 0 ? 1 : 3);
  series.points[7].second = NAN;
  const Lines lines = text_chart(make_chart({series}), {17, 1, true});
  REQUIRE(lines.size() == 2);
  CHECK(lines[1].starts_with("       2 ▁█"));  // nine points of ten, then means of 2
}

TEST_CASE("text_chart returns nothing without points or room") {
  CHECK(text_chart(make_chart({}), {40, 4, true}).empty());
  CHECK(text_chart(make_chart({{"train", {{0, NAN}}}}), {40, 4, true}).empty());
  const Chart chart = make_chart({{"train", {{0, 1}}}});
  CHECK(text_chart(chart, {40, 0, true}).empty());
  CHECK(text_chart(chart, {16, 4, true}).empty());
  CHECK(text_chart(chart, {17, 1, true}) == Lines{"Loss: train", "       1 ▁▁▁▁▁▁▁▁"});
}

}  // namespace
}  // namespace trainer::results
