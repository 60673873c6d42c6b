#include "results/page/svg.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"

namespace trainer::results {
namespace {

// The size of the picture and the frame of the plot in it, in pixels.
constexpr double kChartWidth = 560, kChartHeight = 340;
constexpr double kChartLeft = 86, kChartTop = 64, kChartRight = kChartWidth - 18,
                 kChartBottom = kChartHeight - 48;
constexpr std::size_t kColours = 6;
// Widths of a letter of the legend, about.
constexpr double kLegendLetter = 7.2, kLegendCapital = 9.4;
constexpr double kLegendLine = 18;  // height of a line of names
constexpr std::size_t kMaxLegendLines = 8;

constexpr const char* kChartStyle = R"(<style>
svg.chart{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--grid:#d8dee4;--s0:#0b62c4;--s1:#b93a0a;--s2:#1a7f37;--s3:#7a3fd1;--s4:#8a5a00;--s5:#b02a7a;color:var(--ink);font:13px system-ui,sans-serif}
@media screen and (prefers-color-scheme:dark){svg.chart{--ink:#e6edf3;--soft:#a6b0bb;--grid:#343b44;--s0:#6cb2ff;--s1:#ff9d70;--s2:#56d364;--s3:#c4a0ff;--s4:#e3b341;--s5:#ff8fcb}}
svg.chart text{fill:var(--ink)}
svg.chart text.tick{fill:var(--soft);font-size:12px}
svg.chart text.title{font-weight:600;font-size:15px}
svg.chart line.grid{stroke:var(--grid)}
svg.chart polyline{fill:none;stroke-width:2}
svg.chart circle.hit{fill:transparent}
svg.chart g.point:hover circle.dot{r:5}
svg.chart text.value,svg.chart text.notable{pointer-events:none;font-weight:600;paint-order:stroke;stroke:var(--paper,Canvas);stroke-width:4px}
svg.chart text.value{display:none}
svg.chart circle.notable{fill:var(--ink);pointer-events:none}
svg.chart g.point:hover text.value{display:inline}
</style>
)";

double legend_width(const std::string& name) {
  const auto capitals = std::ranges::count_if(name, [](char c) { return c >= 'A' && c <= 'Z'; });
  const auto others = std::ssize(name) - capitals;
  return 24 + kLegendCapital * static_cast<double>(capitals) +
         kLegendLetter * static_cast<double>(others);
}

std::string chart_pixel(double value) { return fixed(value, 2); }

// "1.5M": there is little room beside an axis.
std::string tick_text(double value) {
  return std::abs(value) < 1e6 ? chart_number(value) : chart_number(value / 1e6) + "M";
}

// An axis from values to pixels, with its ticks.
struct Scale {
  double low = 0, high = 1, from = 0, to = 1;
  bool is_log = false;
  std::vector<double> ticks = {};

  double operator()(double value) const {
    const auto at = [&](double v) { return is_log ? std::log10(v) : v; };
    return from + (to - from) * (at(value) - at(low)) / (at(high) - at(low));
  }
};

// More than a range of five steps has; numbers whose neighbours lie further apart than a step have
// no end.
constexpr int kMaxTicks = 20;

// `round`: the range ends at ticks. `whole`: no ticks between whole numbers.
Scale linear_scale(double low, double high, double from, double to, bool round, bool whole) {
  if (!(high > low)) {
    const double margin = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= margin;
    high += margin;
  }
  const double step = whole ? std::max(1.0, tick_step(high - low, 5)) : tick_step(high - low, 5);
  if (round) {
    low = step * std::floor(low / step + 1e-9);
    high = step * std::ceil(high / step - 1e-9);
  }
  Scale scale{low, high, from, to};
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i < kMaxTicks; ++i) {
    const double tick = (first + i) * step;
    if (tick > high + step * 1e-6) break;
    scale.ticks.push_back(tick == 0 ? 0 : tick);
  }
  return scale;
}

Scale log_scale(double low, double high, double from, double to) {
  if (!(high > low)) high = low * 10;
  Scale scale{low, high, from, to, true};
  const double top = std::log10(high) + 1e-9;
  for (int power = static_cast<int>(std::ceil(std::log10(low) - 1e-9)); power <= top; ++power) {
    scale.ticks.push_back(std::pow(10, power));
  }
  if (scale.ticks.size() < 2) scale.ticks = {low, high};
  return scale;
}

class LineChart {
 public:
  explicit LineChart(const Chart& chart) : chart_(chart) {
    double low_x = INFINITY, high_x = -INFINITY, low_y = INFINITY, high_y = -INFINITY;
    bool whole = true;
    for (const Series& series : chart.series) {
      points_.push_back(drawn_points(series));
      for (const auto& [x, y] : points_.back()) {
        if (!std::isfinite(y)) continue;
        whole = whole && x == std::floor(x);
        low_x = std::min(low_x, x);
        high_x = std::max(high_x, x);
        low_y = std::min(low_y, y);
        high_y = std::max(high_y, y);
      }
    }
    if (low_x > high_x) low_x = low_y = 0, high_x = high_y = 1;
    for (const Chart::Band& band : chart.bands) {
      low_x = std::min(low_x, band.begin);
      high_x = std::max(high_x, band.end);
    }
    for (const auto& [x, y] : chart.notable) {
      low_y = std::min(low_y, y);
      high_y = std::max(high_y, y);
    }
    if (chart.y_from_zero) low_y = std::min(low_y, 0.0);
    arrange_legend();
    x_ = chart.log_x ? log_scale(low_x, high_x, kChartLeft, kChartRight)
                     : linear_scale(low_x, high_x, kChartLeft, kChartRight, false, whole);
    y_ = linear_scale(low_y, high_y, bottom(), top(), true, false);
  }

  std::string svg() {
    out_ = concat("<svg class=\"chart\" id=\"", chart_.id,
                  "\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kChartWidth, ' ',
                  height(), "\" width=\"", kChartWidth, "\" height=\"", height(),
                  "\" role=\"img\" aria-labelledby=\"", chart_.id, "-title ", chart_.id,
                  "-description\">\n<title id=\"", chart_.id, "-title\">",
                  escape_markup(chart_.title), "</title>\n<desc id=\"", chart_.id,
                  "-description\">", escape_markup(description()), "</desc>\n", kChartStyle);
    text(kChartLeft, 22, "start", "title", chart_.title);
    text((kChartLeft + kChartRight) / 2, height() - 10, "middle", "x-label", chart_.x_label);
    text(14, (top() + bottom()) / 2, "middle", "y-label", chart_.y_label,
         concat(" transform=\"rotate(-90 14 ", chart_pixel((top() + bottom()) / 2), ")\""));
    draw_bands();
    draw_ticks();
    draw_mark();
    draw_legend();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_series(i);
    draw_notable();
    return out_ + "</svg>\n";
  }

 private:
  // The text that a screen reader reads aloud.
  std::string description() const {
    std::string text = concat("Line chart: ", chart_.y_label, " over ", chart_.x_label, ".");
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (points_[i].empty()) continue;
      const auto [least, most] = std::ranges::minmax_element(
          points_[i], [](const auto& a, const auto& b) { return a.second < b.second; });
      text +=
          concat(' ', chart_.series[i].name, ": first ", chart_number(points_[i].front().second),
                 ", last ", chart_number(points_[i].back().second), ", lowest ",
                 chart_number(least->second), ", highest ", chart_number(most->second), ".");
    }
    return text;
  }

  void text(double x, double y, const char* anchor, const char* kind, const std::string& what,
            const std::string& more = "") {
    out_ += concat("<text class=\"", kind, "\" x=\"", chart_pixel(x), "\" y=\"", chart_pixel(y),
                   "\" text-anchor=\"", anchor, "\"", more, ">", escape_markup(what), "</text>\n");
  }
  void grid(double x1, double y1, double x2, double y2) {
    out_ += concat("<line class=\"grid\" x1=\"", chart_pixel(x1), "\" y1=\"", chart_pixel(y1),
                   "\" x2=\"", chart_pixel(x2), "\" y2=\"", chart_pixel(y2), "\"/>\n");
  }

  // Writes a value above a point, or below it at the upper edge, on the side with more room.
  void value_text(double x, double y, const char* kind, const std::string& what) {
    const bool is_right = x > (kChartLeft + kChartRight) / 2, is_top = y < top() + 20;
    text(x, y + (is_top ? 20 : -10), is_right ? "end" : "start", kind, what);
  }

  void draw_bands() {
    for (std::size_t i = 0; i < chart_.bands.size(); ++i) {
      const Chart::Band& band = chart_.bands[i];
      const double left = x_(band.begin), right = x_(band.end);
      out_ += concat("<rect class=\"band\" x=\"", chart_pixel(left), "\" y=\"", chart_pixel(top()),
                     "\" width=\"", chart_pixel(right - left), "\" height=\"",
                     chart_pixel(bottom() - top()), "\" fill=\"var(--s", (i + 1) % kColours,
                     ")\" fill-opacity=\"0.12\"/>\n");
      text((left + right) / 2, top() - 7, "middle", "tick band-name", band.name);
    }
  }

  void draw_ticks() {
    for (const double tick : y_.ticks) {
      grid(kChartLeft, y_(tick), kChartRight, y_(tick));
      text(kChartLeft - 8, y_(tick) + 4, "end", "tick y-tick", tick_text(tick));
    }
    for (const double tick : x_.ticks) {
      grid(x_(tick), bottom(), x_(tick), bottom() + 5);
      text(x_(tick), bottom() + 19, "middle", "tick x-tick", tick_text(tick));
    }
  }

  void draw_mark() {
    if (!chart_.mark) return;
    const double x = x_(chart_.mark->x);
    if (!(x >= kChartLeft && x <= kChartRight)) return;
    out_ += concat("<line class=\"mark\" x1=\"", chart_pixel(x), "\" y1=\"", chart_pixel(top()),
                   "\" x2=\"", chart_pixel(x), "\" y2=\"", chart_pixel(bottom()),
                   "\" stroke=\"var(--soft)\" stroke-dasharray=\"2 3\"/>\n");
    const bool is_right = x > (kChartLeft + kChartRight) / 2;
    text(x + (is_right ? -5 : 5), top() - 4, is_right ? "end" : "start", "tick mark",
         chart_.mark->label);
  }

  std::string colour(std::size_t series) const {
    if (chart_.series[series].is_reference) return "var(--soft)";
    return concat("var(--s", series % kColours, ")");
  }

  // The name of a series in the legend.
  struct LegendName {
    std::size_t series;
    std::string name;
    double x;
    std::size_t line;
  };

  // Arranges the names in lines. References, which look alike, have one name together.
  void arrange_legend() {
    double x = kChartLeft;
    std::size_t line = 0;
    bool has_reference = false;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      std::string name = chart_.series[i].name;
      if (chart_.series[i].is_reference) {
        if (std::exchange(has_reference, true)) continue;
        name = name.substr(0, name.find(','));
      }
      const double width = legend_width(name);
      if (x + width > kChartRight && x > kChartLeft) {
        if (line + 1 == kMaxLegendLines) {
          has_more_names_ = true;
          return;
        }
        ++line;
        x = kChartLeft;
      }
      legend_.push_back({i, name, x, line});
      x += width + 16;
    }
  }

  double extra_height() const {
    return legend_.empty() ? 0 : kLegendLine * static_cast<double>(legend_.back().line);
  }
  double top() const { return kChartTop + extra_height(); }
  double bottom() const { return kChartBottom + extra_height(); }
  double height() const { return kChartHeight + extra_height(); }

  void draw_legend() {
    for (const LegendName& one : legend_) {
      const double y = 42 + kLegendLine * static_cast<double>(one.line);
      const char* dash = chart_.series[one.series].is_reference ? " stroke-dasharray=\"5 4\"" : "";
      out_ += concat("<line x1=\"", chart_pixel(one.x), "\" y1=\"", chart_pixel(y), "\" x2=\"",
                     chart_pixel(one.x + 18), "\" y2=\"", chart_pixel(y),
                     "\" stroke-width=\"3\" stroke=\"", colour(one.series), "\"", dash, "/>\n");
      text(one.x + 24, y + 4, "start", "legend", one.name);
    }
    if (!has_more_names_) return;
    text(kChartRight, 46 + extra_height(), "end", "legend", "...");
  }

  void draw_series(std::size_t index) {
    const Series& series = chart_.series[index];
    std::string line;
    const auto flush = [&] {
      if (line.empty()) return;
      out_ += concat("<polyline stroke=\"", colour(index), "\"",
                     series.is_reference ? " stroke-dasharray=\"5 4\"" : "", " points=\"", line,
                     "\"/>\n");
      line.clear();
    };
    for (const auto& [x, y] : points_[index]) {
      if (std::isfinite(y)) {
        line += concat(line.empty() ? "" : " ", chart_pixel(x_(x)), ',', chart_pixel(y_(y)));
      } else {
        flush();
      }
    }
    flush();
    if (series.is_reference) return;
    const char* radius = points_[index].size() > 60 ? "1.5" : "3";
    for (const auto& [x, y] : points_[index]) {
      if (!std::isfinite(y)) continue;
      const std::string at =
          concat(" cx=\"", chart_pixel(x_(x)), "\" cy=\"", chart_pixel(y_(y)), "\"");
      out_ += concat("<g class=\"point\"><title>", escape_markup(series.name), ", ",
                     escape_markup(chart_.x_label), " ", chart_number(x), ": ", chart_number(y),
                     "</title><circle class=\"hit\"", at, " r=\"7\"/><circle class=\"dot\"", at,
                     " r=\"", radius, "\" fill=\"", colour(index), "\"/>");
      value_text(x_(x), y_(y), "value", chart_number(x) + ": " + chart_number(y));
      out_ += "</g>\n";
    }
  }

  void draw_notable() {
    constexpr double kTextWidth = 60, kTextHeight = 16;
    double last_x = -INFINITY, last_y = 0;
    for (const auto& [x, y] : chart_.notable) {
      const double at_x = x_(x), at_y = y_(y);
      if (at_x - last_x < kTextWidth && std::abs(at_y - last_y) < kTextHeight) continue;
      last_x = at_x;
      last_y = at_y;
      out_ += concat("<circle class=\"notable\" cx=\"", chart_pixel(at_x), "\" cy=\"",
                     chart_pixel(at_y), "\" r=\"4\"/>\n");
      value_text(at_x, at_y, "notable", chart_number(y));
    }
  }

  const Chart& chart_;
  std::vector<std::vector<std::pair<double, double>>> points_;  // by series
  std::vector<LegendName> legend_;
  bool has_more_names_ = false;
  Scale x_, y_;
  std::string out_;
};

}  // namespace

double tick_step(double range, int count) {
  const double rough = range / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * 0.999) return factor * power;
  }
  return 10 * power;
}

std::vector<std::pair<double, double>> drawn_points(const Series& series) {
  const std::int64_t count = std::ssize(series.points);
  if (count <= kMaxChartPoints) return series.points;
  std::vector<std::pair<double, double>> some;
  for (std::int64_t i = 1; i <= kMaxChartPoints; ++i) {
    some.push_back(series.points[i * count / kMaxChartPoints - 1]);
  }
  return some;
}

std::string chart_number(double value) {
  const double size = std::abs(value);
  std::string digits = size >= 1e5 && size < 1e15 ? fixed(value, 0) : significant(value, 6);
  if (size < 1e4 || size >= 1e15) return digits;
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t i = std::min(digits.find('.'), digits.size()); i > first + 3;) {
    digits.insert(i -= 3, ",");
  }
  return digits;
}

std::string line_chart(const Chart& chart) { return LineChart(chart).svg(); }

std::string svg_document(const Chart& chart) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + line_chart(chart);
}

void write_charts(const std::vector<Chart>& charts, const Path& folder) {
  for (const Chart& chart : charts) {
    write_file_atomic(folder / (chart.id + ".svg"), svg_document(chart));
  }
}

std::string escape_markup(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    result += c == '&'   ? "&amp;"
              : c == '<' ? "&lt;"
              : c == '>' ? "&gt;"
              : c == '"' ? "&quot;"
                         : std::string(1, c);
  }
  return result;
}

}  // namespace trainer::results
