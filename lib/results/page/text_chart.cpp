#include "results/page/text_chart.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/formats/columns.h"
#include "base/formats/table.h"
#include "base/text.h"

namespace trainer::results {
namespace {

// The parts of a cell that are filled from below: none, ..., all; and the sign of a single value.
struct Glyphs {
  std::vector<std::string> filled;
  std::string point;
};
const Glyphs kBlocks{{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, "•"};
const Glyphs kAsciiGlyphs{{" ", ".", ":", "#"}, "o"};

// The rectangle of cells in which a chart is drawn. The range of x is that of one series, the range
// of y that of all.
struct Area {
  int width = 0, rows = 0, levels = 0;  // of a cell
  double first = 0, last = 0, low = 0, high = 0;

  int find_column(double x) const {
    const double place = last > first ? (x - first) / (last - first) * width : 0;
    return static_cast<int>(std::clamp(place, 0.0, width - 1.0));
  }
  // Returns the height in parts of cells, at least one.
  int find_height(double y) const {
    const double scale = high > low ? (rows * levels - 1) / (high - low) : 0;
    return 1 + static_cast<int>(std::lround((y - low) * scale));
  }
};

// Returns the mean of the points in each column. A column without points has the value before it.
std::vector<double> find_means(const Series& series, const Area& area) {
  std::vector<double> sums(area.width, 0), counts(area.width, 0);
  for (const auto& [x, y] : series.points) {
    sums[area.find_column(x)] += y;
    counts[area.find_column(x)] += 1;
  }
  double mean = series.points.front().second;
  for (int i = 0; i < area.width; ++i) {
    if (counts[i] > 0) mean = sums[i] / counts[i];
    sums[i] = mean;
  }
  return sums;
}

std::string align_right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

}  // namespace

std::vector<std::string> text_chart(const Chart& chart, const TextChartSize& size) {
  constexpr int kMinWidth = 8, kLabelWidth = 8;  // a label has three digits: "1.25e-05"
  std::vector<Series> all = chart.series;
  for (Series& series : all) {
    std::erase_if(series.points, [](const auto& point) { return !std::isfinite(point.second); });
  }
  std::erase_if(all, [](const Series& series) { return series.points.empty(); });
  const int width = size.columns - kLabelWidth - 1;
  if (all.empty() || size.rows < 1 || width < kMinWidth) return {};
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const Series& series) { return series.points.size(); });
  const Glyphs& glyphs = size.has_blocks ? kBlocks : kAsciiGlyphs;
  Area area{width, size.rows, static_cast<int>(glyphs.filled.size()) - 1};
  area.first = all.front().points.front().first;
  area.last = all.front().points.back().first;
  const std::vector<double> means = find_means(all.front(), area);
  std::vector<double> drawn = means;
  for (std::size_t i = 1; i < all.size(); ++i) {
    for (const auto& [x, y] : all[i].points) drawn.push_back(y);
  }
  std::tie(area.low, area.high) = std::pair(std::ranges::min(drawn), std::ranges::max(drawn));

  std::vector<std::vector<std::string>> cells(size.rows, std::vector<std::string>(width));
  for (int row = 0; row < size.rows; ++row) {
    for (int column = 0; column < width; ++column) {
      const int filled = area.find_height(means[column]) - row * area.levels;
      cells[row][column] = glyphs.filled[std::clamp(filled, 0, area.levels)];
    }
  }
  std::string title = concat(chart.title, ": ", all.front().name);
  for (std::size_t i = 1; i < all.size(); ++i) {
    title += concat(i == 1 ? ", " + glyphs.point + " " : ", ", all[i].name);
    for (const auto& [x, y] : all[i].points) {
      cells[(area.find_height(y) - 1) / area.levels][area.find_column(x)] = glyphs.point;
    }
  }
  std::vector<std::string> lines{first_columns(title, static_cast<std::size_t>(size.columns))};
  for (int row = size.rows - 1; row >= 0; --row) {
    const bool is_top = row == size.rows - 1;
    const std::string value =
        is_top || row == 0 ? significant(is_top ? area.high : area.low, 3) : "";
    lines.push_back(align_right(value, kLabelWidth) + ' ' + join(cells[row], ""));
  }
  return lines;
}

}  // namespace trainer::results
