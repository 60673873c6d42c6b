#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/page/page.h"
#include "commands/report/html.h"
#include "commands/sweep/table.h"

namespace trainer::commands {
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

bool has_numbers(const Summary& summary, const ChartAxis& axis) {
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
  if (has_numbers(summary, replicas)) return replicas;
  for (std::size_t i = 0; i < summary.keys.size(); ++i) {
    const ChartAxis axis{summary.short_names[i], {summary.keys[i]}, false};
    if (has_numbers(summary, axis)) return axis;
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
    std::stable_sort(rows.begin(), rows.end(), [&](const SummaryRow* a, const SummaryRow* b) {
      return find_x(*a, axis) < find_x(*b, axis);
    });
  }
  return lines;
}

std::vector<Series> measured(const Lines& lines, const ChartAxis& axis, double SummaryRow::*value) {
  std::vector<Series> all;
  for (const auto& [name, rows] : lines) {
    Series series{name, {}};
    for (const SummaryRow* row : rows) series.points.emplace_back(find_x(*row, axis), row->*value);
    all.push_back(std::move(series));
  }
  return all;
}

// Adds the ideal lines: throughput grows with the number of replicas from that of the fewest, and
// time falls accordingly.
void add_ideals(const Lines& lines, Chart& throughput, Chart& time) {
  for (const auto& [name, rows] : lines) {
    Series rates{lines.size() == 1 ? "ideal" : "ideal, " + name, {}, true};
    Series seconds = rates;
    const SummaryRow& base = *rows.front();
    for (const SummaryRow* row : rows) {
      const auto replicas = static_cast<double>(row->replicas);
      const double rate = base.images_per_second * replicas / static_cast<double>(base.replicas);
      rates.points.emplace_back(replicas, rate);
      seconds.points.emplace_back(replicas, row->images_per_second * row->total_seconds / rate);
    }
    throughput.series.push_back(std::move(rates));
    time.series.push_back(std::move(seconds));
  }
}

std::string points_table(const Summary& summary) {
  Cells cells{{"point", "state", "images/second", "total time, s"}};
  for (const PointState& point : summary.points) {
    std::string state = point.is_done() ? "finished" : to_string(point.kind);
    if (!point.message.empty()) state += ": " + point.message;
    cells.push_back({point.point.name, state,
                     point.run ? fixed(images_per_second(*point.run), 1) : "-",
                     point.run ? fixed(step_seconds(*point.run), 2) : "-"});
  }
  return table("Every run of the sweep", cells, 2);
}

// The verdicts, which are sentences, stand below the numbers.
std::string summary_table(const Summary& summary) {
  Cells cells = make_cells(summary);
  for (auto& row : cells) row.pop_back();
  if (summary.keys.empty()) {
    for (auto& row : cells)
      row.insert(row.begin(), &row == &cells.front() ? "sweep" : summary.name);
  }
  return table("Means over the seeds of each combination", cells, 0);
}

std::string verdicts(const Summary& summary) {
  Cells cells{{"combination", "verdict"}};
  for (const SummaryRow& row : summary.rows) {
    cells.push_back({make_label(summary, row), row.verdict});
  }
  return table("What limits each combination, from what was measured", cells, 2);
}

}  // namespace

std::vector<Chart> sweep_charts(const Summary& summary) {
  const ChartAxis axis = choose_axis(summary);
  if (axis.keys.empty()) return {};
  const bool is_log = axis.label.find("learning_rate") != std::string::npos;
  const Lines lines = group_lines(summary, axis);
  Chart throughput{"throughput",
                   "Throughput",
                   axis.label,
                   "images/second",
                   measured(lines, axis, &SummaryRow::images_per_second),
                   true,
                   is_log};
  Chart time{"total-time",
             "Total time",
             axis.label,
             "total time of the steps (seconds)",
             measured(lines, axis, &SummaryRow::total_seconds),
             true,
             is_log};
  if (axis.counts_replicas) add_ideals(lines, throughput, time);
  return {throughput, time};
}

std::string sweep_report(const Summary& summary) {
  std::string body = heading("Plots") + "<div class=\"charts\">\n";
  const std::vector<Chart> charts = sweep_charts(summary);
  for (const Chart& chart : charts) body += figure(chart);
  body += "</div>\n";
  if (charts.empty()) {
    body += "<p>No plots: the points that finished differ in no number.</p>\n";
  }
  body += heading("Table") + summary_table(summary);
  for (const std::string& sentence : {summary.scored, accuracy_sentence(summary)}) {
    if (!sentence.empty()) body += "<p>" + escape_markup(sentence) + "</p>\n";
  }
  body += heading("Verdicts") + verdicts(summary) + heading("Points") + points_table(summary);
  for (const PointState& point : summary.points) {
    if (!point.run) continue;
    body += heading("Environment") + list("What made the first run", point.run->origin);
    break;
  }
  return page("Sweep " + summary.name, body);
}

void write_sweep_report(const Summary& summary, const Path& folder, const Path& html) {
  for (const Chart& chart : sweep_charts(summary)) {
    write_file_atomic(folder / (chart.id + ".svg"), svg_document(chart));
  }
  write_file_atomic(html, sweep_report(summary));
}

}  // namespace trainer::commands
