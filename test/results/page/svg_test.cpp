#include "results/page/svg.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "support/contains.h"

namespace trainer::results {

using test::contains;

TEST_CASE(
    "line chart: bands widen the axis, and notable values that would cover another are left out") {
  Chart chart;
  chart.series = {{"rate", {{0, 1}, {9, 2}}}};
  chart.bands = {{0, 5, "rise & fall"}, {5, 10, "rest"}};
  chart.notable = {{0, 1}, {0.1, 1.001}, {9, 2}};
  const std::string svg = line_chart(chart);
  CHECK(contains(svg, ">rise &amp; fall</text>"));
  CHECK(contains(svg, "<rect class=\"band\" x=\"86.00\" y=\"64.00\" width=\"228.00\""));
  CHECK(contains(svg, "<rect class=\"band\" x=\"314.00\" y=\"64.00\" width=\"228.00\""));
  CHECK(contains(svg, "<circle class=\"notable\" cx=\"86.00\""));
  CHECK(contains(svg, "<circle class=\"notable\" cx=\"496.40\""));
  CHECK_FALSE(contains(svg, ">1.001</text>"));
}

TEST_CASE("line chart: a notable value above the curve is inside the frame") {
  Chart chart;
  chart.series = {{"rate", {{0, 1}, {10, 2}}}};
  chart.notable = {{5, 4}};
  CHECK(contains(line_chart(chart), "<circle class=\"notable\" cx=\"314.00\" cy=\"64.00\""));
}

TEST_CASE("svg_document declares both colour schemes") {
  CHECK(contains(svg_document({}), "svg.chart{color-scheme:light dark;"));
}

TEST_CASE("line chart: values that differ by one rounding have a few ticks") {
  Chart chart;
  chart.id = "loss";
  chart.series.push_back({"loss", {{0, 1e17}, {1, 1e17 + 16}}});
  const std::string svg = line_chart(chart);
  std::size_t ticks = 0;
  for (std::size_t at = 0; (at = svg.find("tick y-tick", at)) != std::string::npos; ++at) ++ticks;
  CHECK(ticks > 2);
  CHECK(ticks < 50);
}

TEST_CASE("line chart: a legend of long names has several lines with the plot below them") {
  Chart chart;
  chart.id = "curves";
  const auto top_of_plot = [&] {
    const std::string svg = line_chart(chart);
    CHECK_FALSE(contains(svg, ">...</text>"));
    const std::string box = " 560 ";
    const std::size_t at = svg.find("viewBox=\"0 0 560 ") + 17;
    return std::stod(svg.substr(at));
  };
  for (int i = 0; i < 6; ++i) {
    chart.series.push_back({concat("learning_rate=0.001 seed=", i), {{0, 1}, {1, 2}}});
  }
  // Two names of 25 letters fit into a line.
  CHECK(top_of_plot() == 340 + 2 * 18);
  chart.series.resize(2);
  CHECK(top_of_plot() == 340);
  for (int i = 0; i < 40; ++i) chart.series.push_back(chart.series.front());
  CHECK(contains(line_chart(chart), ">...</text>"));
}

}  // namespace trainer::results
