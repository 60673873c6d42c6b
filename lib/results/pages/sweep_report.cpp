#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "results/pages/html.h"
#include "results/pages/sections.h"
#include "results/sweeps/table.h"

namespace trainer::results {
namespace {

// What the plots have on their x-axis.
struct ChartAxis {
  std::string label;
  std::set<std::string> keys;  // of the values that it stands for
  bool counts_replicas = false;
};

double find_x(const SummaryRow& row, const ChartAxis& axis) {
  if (axis.counts_replicas) return static_cast<double>(row.replicas);
  for (const auto& [key, value] : row.values) {
    if (axis.keys.contains(key)) return parse_real(value).value_or(NAN);
  }
  return NAN;
}

bool has_result(const Summary& summary, const ChartAxis& axis) {
  std::set<double> values;
  for (const SummaryRow& row : summary.rows) {
    if (row.runs == 0) continue;
    const double x = find_x(row, axis);
    if (!std::isfinite(x)) return false;
    values.insert(x);
  }
  return values.size() > 1;
}

// Returns an axis without keys when the rows have no numbers for x.
ChartAxis choose_axis(const Summary& summary) {
  const ChartAxis replicas{"replicas (NUM_GPUS)", {"parallel.gpus", "parallel.replicas"}, true};
  if (has_result(summary, replicas)) return replicas;
  for (std::size_t i = 0; i < summary.keys.size(); ++i) {
    const ChartAxis axis{summary.short_names[i], {summary.keys[i]}, false};
    if (has_result(summary, axis)) return axis;
  }
  return {};
}

// Returns the values in which this line differs from others.
std::string make_line_name(const Summary& summary, const SummaryRow& row, const ChartAxis& axis) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    if (!axis.keys.contains(row.values[i].first)) {
      words.push_back(summary.short_names[i] + "=" + row.values[i].second);
    }
  }
  return words.empty() ? "measured" : join(words, " ");
}

// The rows of every line, by rising x.
using Lines = std::map<std::string, std::vector<const SummaryRow*>>;

Lines group_lines(const Summary& summary, const ChartAxis& axis) {
  Lines lines;
  for (const SummaryRow& row : summary.rows) {
    if (row.runs > 0) lines[make_line_name(summary, row, axis)].push_back(&row);
  }
  for (auto& [name, rows] : lines) {
    std::ranges::stable_sort(rows, [&](const SummaryRow* a, const SummaryRow* b) {
      return find_x(*a, axis) < find_x(*b, axis);
    });
  }
  return lines;
}

// Returns a line of the finite values of each group; none for a group without any.
template <class Value>
std::vector<Series> measured(const Lines& lines, const ChartAxis& axis, const Value& value) {
  std::vector<Series> all;
  for (const auto& [name, rows] : lines) {
    Series series{name, {}};
    for (const SummaryRow* row : rows) {
      const double y = value(*row);
      if (std::isfinite(y)) series.points.emplace_back(find_x(*row, axis), y);
    }
    if (!series.points.empty()) all.push_back(std::move(series));
  }
  return all;
}

double mean_accuracy(const SummaryRow& row) { return row.accuracy ? row.accuracy->mean : NAN; }
double mean_loss(const SummaryRow& row) { return row.loss; }

// Adds the ideal lines: throughput grows with the number of replicas from that of the fewest, and
// time falls accordingly.
void add_ideals(const Lines& lines, Chart& throughput, Chart& time) {
  for (const auto& [name, rows] : lines) {
    Series rates{lines.size() == 1 ? "ideal" : "ideal, " + name, {}, true};
    Series seconds = rates;
    const SummaryRow& base = *rows.front();
    for (const SummaryRow* row : rows) {
      const auto replicas = static_cast<double>(row->replicas);
      const double speed_up = replicas / static_cast<double>(base.replicas);
      rates.points.emplace_back(replicas, base.images_per_second * speed_up);
      seconds.points.emplace_back(replicas,
                                  row->samples / base.samples * base.total_seconds / speed_up);
    }
    throughput.series.push_back(std::move(rates));
    time.series.push_back(std::move(seconds));
  }
}

// The points whose curves are drawn: as many as there are colours.
constexpr std::size_t kMaxCurves = 6;

// Returns the values of a point with its seed as "gpus=2 seed=1".
std::string make_point_label(const Summary& summary, const Point& point) {
  std::vector<std::string> words;
  for (const auto& [key, value] : point.values) {
    const auto found = std::ranges::find(summary.keys, key);
    const bool is_known = found != summary.keys.end();
    words.push_back(
        concat(is_known ? summary.short_names[found - summary.keys.begin()] : key, "=", value));
  }
  return words.empty() ? summary.name : join(words, " ");
}

// Returns validation if the run evaluated it: most runs evaluate the test split only once, at the
// end, which makes no curve.
std::optional<Split> find_curve_split(const RunFiles& run) {
  const bool has_validation = std::ranges::any_of(
      run.metrics, [](const MetricsRow& row) { return row.split == Split::kValidation; });
  return has_validation ? Split::kValidation : scored_split(run);
}

// Returns the metric of this split over the epochs of the run.
Series make_curve(const std::string& name, const RunFiles& run, std::optional<Split> split,
                  double MetricsRow::*value) {
  Series series{name, {}};
  for (const MetricsRow& row : run.metrics) {
    if (row.split != split || !std::isfinite(row.*value)) continue;
    series.points.emplace_back(row.epoch, row.*value);
  }
  return series;
}

Table points_table(const Summary& summary) {
  Table table({"point", "state", "accuracy", "loss", "images/second", "total time, s"},
              NumbersFrom{2}, "Every run of the sweep, the best first");
  for (const std::size_t i : rank_points(summary)) {
    const PointState& point = summary.points[i];
    std::string state = point.is_done() ? "finished" : to_string(point.kind);
    if (!point.message.empty()) state += ": " + point.message;
    const auto result = find_scored_result(summary, point);
    table.add({point.point.name, state, fixed_or_dash(result ? result->metrics.accuracy : NAN, 4),
               fixed_or_dash(result ? result->metrics.loss : NAN, 4),
               point.run ? fixed(images_per_second(*point.run), 1) : "-",
               point.run ? fixed(total_steps(*point.run).seconds, 2) : "-"});
  }
  return table;
}

// Adds the verdict that most combinations share as a sentence, and a table of those that differ.
void add_verdicts(Document& page, const Summary& summary) {
  if (summary.rows.empty()) return;
  std::map<std::string, std::int64_t> counts;
  for (const SummaryRow& row : summary.rows) ++counts[row.verdict];
  const auto [common, count] =
      *std::ranges::max_element(counts, {}, [](const auto& counted) { return counted.second; });
  const auto total = std::ssize(summary.rows);
  const bool is_shared = count > 1;
  if (is_shared) {
    const std::string which = count == total ? concat("All ", count) : concat(count, " of ", total);
    page.add(Paragraph{concat(which, " combinations: ", common, ".")});
  }
  Table others({"combination", "verdict"}, {},
               is_shared ? "The other combinations"
                         : "What limits each combination, from what was measured");
  for (const std::size_t i : rank_rows(summary)) {
    const SummaryRow& row = summary.rows[i];
    if (is_shared && row.verdict == common) continue;
    others.add({make_label(summary, row), row.verdict});
  }
  if (!others.rows().empty()) page.add(others);
}

void add_curves(Document& page, const Summary& summary) {
  Charts charts = sweep_curves(summary);
  if (charts.empty()) return;
  const auto finished = std::ranges::count_if(
      summary.points, [](const PointState& point) { return point.run.has_value(); });
  page.add(Heading{"Curves"});
  if (finished > static_cast<std::int64_t>(kMaxCurves)) {
    page.add(Paragraph{concat("The best ", kMaxCurves, " of ", finished, " points.")});
  }
  page.add(std::move(charts));
}

}  // namespace

Charts sweep_charts(const Summary& summary) {
  const ChartAxis axis = choose_axis(summary);
  if (axis.keys.empty()) return {};
  const bool is_log = axis.label.find("learning_rate") != std::string::npos;
  const Lines lines = group_lines(summary, axis);
  const auto make = [&](const char* id, const char* title, const char* y_label, auto value) {
    Chart chart{id, title, axis.label, y_label, measured(lines, axis, value)};
    chart.log_x = is_log;
    return chart;
  };
  Charts charts{make("accuracy", "Accuracy", "accuracy (share of samples)", mean_accuracy),
                make("loss", "Loss", "loss (mean over samples)", mean_loss)};
  std::erase_if(charts, [](const Chart& chart) { return chart.series.empty(); });
  Chart throughput = make("throughput", "Throughput", "images/second",
                          [](const SummaryRow& row) { return row.images_per_second; });
  Chart time = make("total-time", "Total time", "total time of the steps (seconds)",
                    [](const SummaryRow& row) { return row.total_seconds; });
  throughput.y_from_zero = time.y_from_zero = true;
  if (axis.counts_replicas) add_ideals(lines, throughput, time);
  charts.push_back(std::move(throughput));
  charts.push_back(std::move(time));
  return charts;
}

Charts sweep_curves(const Summary& summary) {
  Chart accuracy{"accuracy-curves", "", "epoch", "accuracy (share of samples)", {}};
  Chart loss{"loss-curves", "", "epoch", "loss (mean over samples)", {}};
  std::set<std::string> splits;
  std::size_t points = 0;
  for (const std::size_t i : rank_points(summary)) {
    const PointState& point = summary.points[i];
    if (!point.run || points == kMaxCurves) continue;
    ++points;
    const std::string name = make_point_label(summary, point.point);
    const std::optional<Split> split = find_curve_split(*point.run);
    if (split) splits.insert(to_string(*split));
    accuracy.series.push_back(make_curve(name, *point.run, split, &MetricsRow::accuracy));
    loss.series.push_back(make_curve(name, *point.run, split, &MetricsRow::loss));
  }
  const std::string names = join({splits.begin(), splits.end()}, ", ");
  accuracy.title = concat("Accuracy of the points (", names, ")");
  loss.title = concat("Loss of the points (", names, ")");
  Charts charts{std::move(accuracy), std::move(loss)};
  std::erase_if(charts, [](Chart& chart) {
    std::erase_if(chart.series, [](const Series& series) { return series.points.empty(); });
    return chart.series.empty();
  });
  return charts;
}

Document environment_section(const Summary& summary) {
  Document section;
  const auto first =
      std::ranges::find_if(summary.points, [](const PointState& p) { return p.run.has_value(); });
  if (first == summary.points.end()) return section;
  section.add(Heading{"Environment"});
  section.add(make_list("What made the first run", first->run->origin));
  return section;
}

Document sweep_report(const Summary& summary) {
  Document page{"Sweep " + summary.name};
  if (const std::string best = best_sentence(summary); !best.empty()) {
    page.add(Paragraph{best, Paragraph::Kind::kHeadline});
  }
  for (const std::string& sentence : {summary.scored, summary.cached, accuracy_sentence(summary)}) {
    if (!sentence.empty()) page.add(Paragraph{sentence});
  }
  page.add(Heading{"Table"});
  page.add(make_table(summary, rank_rows(summary)));
  add_curves(page, summary);
  page.add(Heading{"Plots"});
  Charts charts = sweep_charts(summary);
  if (charts.empty()) {
    page.add(Paragraph{"No plots: the points that finished differ in no number."});
  }
  page.add(std::move(charts));
  page.add(Heading{"Verdicts"});
  add_verdicts(page, summary);
  page.add(Heading{"Points"});
  page.add(points_table(summary));
  page.append(environment_section(summary));
  return page;
}

}  // namespace trainer::results
