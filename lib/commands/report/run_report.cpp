#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/page/page.h"
#include "commands/report/html.h"
#include "commands/report/sections.h"
#include "commands/report/step_time_section.h"
#include "engine/metrics.h"

namespace trainer::commands {
namespace {

constexpr std::size_t kMaxPageClasses = 30;  // classes whose matrix fits a page
constexpr std::size_t kMaxListedConfusions = 30;
constexpr std::size_t kMinCurveRows = 5;  // rows of training metrics that make a curve

// Returns one series per split that has the metric.
std::vector<Series> make_series(const RunFiles& run, double MetricsRow::*value, bool train_only) {
  std::vector<Series> all;
  for (const Split split : kSplits) {
    if (train_only && split != Split::kTrain) continue;
    Series series{to_string(split), {}};
    for (const MetricsRow& row : run.metrics) {
      if (row.split != split || !std::isfinite(row.*value)) continue;
      series.points.emplace_back(static_cast<double>(row.step), row.*value);
    }
    if (!series.points.empty()) all.push_back(std::move(series));
  }
  return all;
}

// Replaces the training metrics of a run that is too short for a curve by those of every step.
RunFiles with_steps_as_metrics(RunFiles run) {
  const auto is_train = [](const MetricsRow& row) { return row.split == Split::kTrain; };
  const auto rows =
      static_cast<std::size_t>(std::count_if(run.metrics.begin(), run.metrics.end(), is_train));
  if (rows >= kMinCurveRows || run.ledger.size() <= rows) return run;
  for (MetricsRow& row : run.metrics) {
    if (is_train(row)) row.loss = row.learning_rate = row.images_per_second = NAN;
  }
  for (const LedgerRow& step : run.ledger) {
    MetricsRow row;
    row.step = step.step;
    row.split = Split::kTrain;
    row.loss = parse_real(step.loss).value_or(NAN);
    row.learning_rate = parse_real(step.learning_rate).value_or(NAN);
    row.images_per_second = static_cast<double>(step.samples) / step.seconds;
    row.accuracy = NAN;
    run.metrics.push_back(row);
  }
  return run;
}

// A cell is the darker the larger its share of the row; right ones are blue, wrong ones red.
std::string matrix_cell(std::int64_t count, std::int64_t of, bool right) {
  const double share = of > 0 ? static_cast<double>(count) / static_cast<double>(of) : 0;
  const char* colour = right ? "11,98,196" : "200,40,40";
  return concat("<td class=\"n\" style=\"background:rgba(", colour, ",",
                fixed(0.55 * std::sqrt(share), 3), ")\">", count, "</td>");
}

std::string class_name(const RunFiles& run, std::size_t index) {
  return index < run.classes.size() ? run.classes[index] : std::to_string(index);
}

std::string matrix(const RunFiles& run, const SplitResult& result) {
  const std::size_t n = result.classes.size();
  std::vector<std::int64_t> counts(n * n);
  for (std::size_t c = 0; c < n; ++c) counts[c * n + c] = result.classes[c].correct;
  for (const engine::ConfusionCell& cell : result.confusions) {
    counts[static_cast<std::size_t>(cell.actual) * n + static_cast<std::size_t>(cell.predicted)] =
        cell.count;
  }
  std::string text =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\">\n"
      "<table id=\"confusion\">\n<caption>Samples by true class (rows) and predicted class "
      "(columns)</caption>\n<thead><tr><th scope=\"col\">true \\ predicted</th>";
  for (std::size_t c = 0; c < n; ++c) {
    text += concat("<th scope=\"col\" class=\"n\">", escape_markup(class_name(run, c)), "</th>");
  }
  text += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < n; ++r) {
    text += concat("<tr><th scope=\"row\">", escape_markup(class_name(run, r)), "</th>");
    for (std::size_t c = 0; c < n; ++c) {
      text += matrix_cell(counts[r * n + c], result.classes[r].support, r == c);
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n</div>\n";
}

// Lists the most frequent mistakes when there are too many classes for a matrix.
std::string mistakes(const RunFiles& run, const SplitResult& result) {
  Cells cells{{"true class", "predicted class", "samples"}};
  for (const engine::ConfusionCell& one : result.confusions) {
    if (cells.size() > kMaxListedConfusions) break;
    cells.push_back({class_name(run, static_cast<std::size_t>(one.actual)),
                     class_name(run, static_cast<std::size_t>(one.predicted)),
                     std::to_string(one.count)});
  }
  return table("Most frequent mistakes", cells, 2);
}

std::string per_class(const RunFiles& run, const SplitResult& result) {
  Cells cells{{"class", "precision", "recall", "F1", "samples"}};
  const auto rows = engine::class_scores(result.classes);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    cells.push_back({class_name(run, i), fixed(rows[i].precision, 4), fixed(rows[i].recall, 4),
                     fixed(rows[i].f1, 4), std::to_string(rows[i].support)});
  }
  return table("Precision, recall and F1 of every class", cells, 1);
}

std::string results(const RunFiles& run) {
  std::vector<std::pair<std::string, std::string>> entries;
  const auto add = [&](const char* name, const std::string& value) {
    entries.emplace_back(name, value);
  };
  add("state", run.finished ? run.finished->reason : "not finished");
  const std::int64_t seen = run.ledger.empty() ? 0 : run.ledger.back().step;
  add("steps", concat(run.finished ? run.finished->steps : seen, " of ", run.total_steps));
  if (run.finished) {
    for (const auto& [split, result] : run.finished->splits) {
      std::string value = "loss " + fixed(result.loss, 4);
      if (std::isfinite(result.accuracy)) {
        const engine::Interval interval = engine::wilson(result.correct, result.count);
        value += concat(", accuracy ", percent(result.accuracy), " (95 % interval ",
                        percent(interval.low), " to ", percent(interval.high), ", ", result.correct,
                        " of ", result.count, ")");
      }
      entries.emplace_back(to_string(split), value);
    }
  }
  add("images/second", fixed(images_per_second(run), 1));
  add("total time (sum of the steps)", fixed(step_seconds(run), 2) + " s");
  add("wall time", fixed(run.wall_seconds, 2) + " s");
  add("waiting for data", fixed(wait_seconds(run), 2) + " s");
  add("replicas", std::to_string(run.replicas));
  add("global batch", std::to_string(run.global_batch));
  add("peak memory of the host", concat(run.peak_memory_bytes >> 20, " MiB"));
  if (const auto price = cost(run, run.wall_seconds)) add("cost", fixed(*price, 4));
  if (run.energy_joules) add("energy of the devices", fixed(*run.energy_joules, 0) + " J");
  if (run.joules_per_image) add("energy per image", fixed(*run.joules_per_image, 4) + " J");
  return list("Results", entries);
}

std::string classes_section(const RunFiles& run) {
  const std::optional<Split> split = scored_split(run);
  if (!split) return "";
  const SplitResult& result = run.finished->splits.at(*split);
  if (result.classes.empty()) return "";
  return heading(concat("Classes (", to_string(*split), ")")) +
         (result.classes.size() <= kMaxPageClasses ? matrix(run, result) : mistakes(run, result)) +
         per_class(run, result);
}

}  // namespace

std::vector<Chart> run_charts(const RunFiles& whole_run) {
  const RunFiles run = with_steps_as_metrics(whole_run);
  std::vector<Chart> charts{{"loss", "Loss", "step", "loss (mean over samples)",
                             make_series(run, &MetricsRow::loss, false), true},
                            {"accuracy", "Accuracy", "step", "accuracy (share of samples)",
                             make_series(run, &MetricsRow::accuracy, false)},
                            {"learning-rate", "Learning rate", "step", "learning rate",
                             make_series(run, &MetricsRow::learning_rate, true), true},
                            {"throughput", "Throughput", "step", "images/second",
                             make_series(run, &MetricsRow::images_per_second, true), true}};
  std::erase_if(charts, [](const Chart& chart) { return chart.series.empty(); });
  return charts;
}

std::string run_report(const RunFiles& run, const Mistakes& mistakes) {
  std::string body =
      concat("<p class=\"lead\">", escape_markup(run.folder.string()), "</p>\n", results(run));
  body += heading("Curves") + "<div class=\"charts\">\n";
  for (const Chart& chart : run_charts(run)) body += figure(chart);
  body += "</div>\n" + classes_section(run) + mistakes_section(mistakes) + step_time_section(run) +
          device_section(run) + data_section(run) + heading("Environment") +
          list("What made the run", run.origin) + heading("Config") +
          folded("Every value of the config", list("Config", run.config));
  return page("Run " + run.name, body);
}

void write_run_report(const RunFiles& run, const Mistakes& mistakes, const Path& html) {
  write_file_atomic(html, run_report(run, mistakes));
}

void write_run_plots(const RunFiles& run, const Path& folder) {
  std::filesystem::create_directories(folder);
  std::vector<Chart> charts = run_charts(run);
  for (Chart& chart : device_charts(run)) charts.push_back(std::move(chart));
  for (const Chart& chart : charts) {
    write_file_atomic(folder / (chart.id + ".svg"), svg_document(chart));
  }
}

}  // namespace trainer::commands
