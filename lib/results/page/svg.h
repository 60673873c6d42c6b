// Line charts as static SVG: no script, no network, light and dark as the reader prefers.
// Reasons: lib/decisions/results.md#charts-are-static-svg.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"

namespace trainer::results {

// A series with more points is thinned out to as many when it is drawn.
inline constexpr std::int64_t kMaxChartPoints = 400;

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y) by rising x; y that is not finite: a gap
  bool is_reference = false;                      // a dashed line without markers: an ideal
};

struct Chart {
  std::string id;  // a word, unique in its document
  std::string title;
  std::string x_label, y_label;  // include the units
  std::vector<Series> series;
  bool y_from_zero = false;
  bool log_x = false;  // requires all x to be above 0
  // A dashed vertical line with a label, drawn if x lies between the first and the last point.
  struct Mark {
    double x = 0;
    std::string label;
  };
  std::optional<Mark> mark = {};
  // A shaded range of x with its name above it. The x axis reaches over all bands.
  struct Band {
    double begin = 0, end = 0;
    std::string name;
  };
  std::vector<Band> bands = {};
  // Points (x, y) by rising x that are marked, with y as text. A point whose text would cover the
  // previous text is left out.
  std::vector<std::pair<double, double>> notable = {};
};

// Returns the points of a series that are drawn: all, or about 400 evenly spaced ones with the
// last.
std::vector<std::pair<double, double>> drawn_points(const Series& series);

// Returns the distance of ticks on an axis: 1, 2 or 5 times a power of ten, so that about `count`
// ticks divide `range` > 0.
double tick_step(double range, int count);

// "0.9812", "12,345.6": up to six significant digits, of whole numbers all.
std::string chart_number(double value);

// Returns an <svg> element. Each drawn point is a circle that shows x and y under the mouse; its
// <title> has the series too; the element has a title and a description for those who cannot see
// it.
std::string line_chart(const Chart& chart);
// Returns the chart as an SVG file.
std::string svg_document(const Chart& chart);
// Writes each chart as the file <id>.svg into a folder.
void write_charts(const std::vector<Chart>& charts, const Path& folder);

// Escapes a text for elements and attributes of XML and HTML.
std::string escape_markup(const std::string& text);

}  // namespace trainer::results
