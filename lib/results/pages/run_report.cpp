#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/formats/duration.h"
#include "base/text.h"
#include "engine/metrics/metrics.h"
#include "results/evaluation/evaluation_report.h"
#include "results/evaluation/find_class.h"
#include "results/pages/html.h"
#include "results/pages/sections.h"
#include "results/run_files/data_name.h"

namespace trainer::results {
namespace {

constexpr std::size_t kMaxPageClasses = 30;  // classes whose matrix fits a page
constexpr std::size_t kMinCurveRows = 5;     // rows of training metrics that make a curve

// Returns the place of a step on the x axis of charts: in epochs, if their length is known.
double chart_x(const RunFiles& run, std::int64_t step) {
  const auto x = static_cast<double>(step);
  return run.steps_per_epoch > 0 ? x / static_cast<double>(run.steps_per_epoch) : x;
}

// Returns one series per split that has the metric.
std::vector<Series> make_series(const RunFiles& run, double MetricsRow::*value, bool train_only) {
  std::vector<Series> all;
  for (const Split split : kSplits) {
    if (train_only && split != Split::kTrain) continue;
    Series series{to_string(split), {}};
    for (const MetricsRow& row : run.metrics) {
      if (row.split != split || !std::isfinite(row.*value)) continue;
      series.points.emplace_back(chart_x(run, row.step), row.*value);
    }
    if (!series.points.empty()) all.push_back(std::move(series));
  }
  return all;
}

// Replaces the training metrics of a run that is too short for a curve by those of every step.
RunFiles with_steps_as_metrics(RunFiles run) {
  const auto is_train = [](const MetricsRow& row) { return row.split == Split::kTrain; };
  const auto rows = static_cast<std::size_t>(std::ranges::count_if(run.metrics, is_train));
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
    run.metrics.push_back(row);
  }
  return run;
}

ConfusionMatrix stored_matrix(const RunFiles& run, const SplitResult& result) {
  const std::size_t n = result.classes.size();
  ConfusionMatrix matrix{{}, std::vector<std::int64_t>(n * n)};
  for (std::size_t c = 0; c < n; ++c) {
    matrix.classes.push_back(class_name(run.classes, c));
    matrix.counts[c * n + c] = result.classes[c].correct;
  }
  for (const engine::ConfusionCell& cell : result.confusions) {
    matrix.counts[static_cast<std::size_t>(cell.actual) * n +
                  static_cast<std::size_t>(cell.predicted)] = cell.count;
  }
  return matrix;
}

// Returns "12.35 s", or "1:02:05" for a minute and more.
std::string format_time(double seconds) {
  return seconds < 60 ? fixed(seconds, 2) + " s" : clock_time(seconds);
}

// Returns "images", or "samples" if the rows of the data need not be images.
std::string name_samples(const RunFiles& run) {
  const std::string format = find_leaf(run.config, "data.format");
  return format.empty() || format == "npz" || format == "synthetic" ? "samples" : "images";
}

std::string describe_throughput(const RunFiles& run) {
  const std::string rate = fixed(images_per_second(run), 1);
  if (!run.finished || !run.finished->rates.cached) return rate;
  const std::optional<double>& computing = run.finished->rates.computing;
  return concat(computing ? fixed(*computing, 1) + " while features were computed, " : "", rate,
                " with cached features");
}

Table results_table(const RunFiles& run) {
  Table table({"name", "value"}, {}, "Results");
  const auto add = [&](const std::string& name, const std::string& value) {
    table.add({name, value});
  };
  add("state", run.finished ? run.finished->reason : "not finished");
  if (!run.started.empty()) add("started", run.started);
  if (!run.command.empty()) add("command", run.command);
  if (!run.model.empty()) add("model", run.model);
  const std::int64_t seen = run.ledger.empty() ? 0 : run.ledger.back().step;
  add("steps", concat(run.finished ? run.finished->steps : seen, " of ", run.total_steps));
  if (const auto& best = run.best) {
    add("best checkpoint", concat("step ", best->step, ", epoch ", fixed(best->epoch, 2), ", ",
                                  best->metric, ' ', fixed(best->value, 4)));
  }
  if (run.finished) {
    if (run.best)
      add("last checkpoint", concat("step ", run.finished->steps, ", with these metrics"));
    for (const auto& [split, result] : run.results) {
      std::string value = "loss " + fixed(result.loss, 4);
      if (std::isfinite(result.accuracy)) {
        const engine::Interval interval = engine::wilson(result.correct, result.count);
        value += concat(", accuracy ", percent(result.accuracy), " (95 % interval ",
                        percent(interval.low), " to ", percent(interval.high), ", ", result.correct,
                        " of ", result.count, ")");
      }
      if (!result.multi_label.empty()) {
        const engine::MultiLabelMetrics& labels = result.multi_label;
        value +=
            concat(", subset accuracy ", percent(labels.subset_accuracy()), " (", labels.exact,
                   " of ", labels.samples, "), F1 macro ", fixed(labels.f1_macro(), 4), ", micro ",
                   fixed(labels.f1_micro(), 4), ", Hamming loss ", fixed(labels.hamming_loss(), 4));
      }
      add(to_string(split), value);
    }
  }
  add("images/second", describe_throughput(run));
  const StepTotals steps = total_steps(run);
  add("total time (sum of the steps)", format_time(steps.seconds));
  add("wall time", format_time(run.wall_seconds));
  add("waiting for data", fixed(steps.wait_seconds, 2) + " s");
  add("replicas", std::to_string(run.replicas));
  add("global batch", std::to_string(run.global_batch));
  add("peak memory of the host", concat(run.peak_memory_bytes >> 20, " MiB"));
  if (const auto price = cost(run, run.wall_seconds)) add("cost", fixed(*price, 4));
  if (run.energy_joules) add("energy of the devices", fixed(*run.energy_joules, 0) + " J");
  if (run.joules_per_image) add("energy per image", fixed(*run.joules_per_image, 4) + " J");
  return table;
}

// The result that the page is about: of the checkpoint with which mistakes were looked for, if all
// samples were, otherwise of the end of the run.
struct ShownResult {
  Split split = Split::kTest;
  SplitResult result;
  std::int64_t step = 0;   // of the checkpoint
  std::string checkpoint;  // "the best checkpoint, step 33"
  double auc = std::nan("");
};

// Returns the AUC that training measured for a split at a step; NaN without one.
double find_auc(const RunFiles& run, Split split, std::int64_t step) {
  for (const MetricsRow& row : run.metrics) {
    if (row.split == split && row.step == step) return row.means.auc;
  }
  return std::nan("");
}

std::optional<ShownResult> find_shown_result(const RunFiles& run, const Mistakes& mistakes) {
  const std::optional<Split> split = scored_split(run);
  if (!split) return std::nullopt;
  const SplitResult& last = run.results.at(*split);
  if (!mistakes.result || parse_split(mistakes.split) != split) {
    const std::int64_t step = run.finished->steps;
    return ShownResult{*split, last, step, concat("the last checkpoint, step ", step),
                       find_auc(run, *split, step)};
  }
  const bool is_best = mistakes.checkpoint == CheckpointChoice::kBest;
  return ShownResult{*split, *mistakes.result, mistakes.step,
                     concat("the ", is_best ? "best" : "last", " checkpoint, step ", mistakes.step),
                     mistakes.auc};
}

// "68 % right (589 of 863 validation samples), 5 classes, 3,454 training samples".
std::string describe_result(const RunFiles& run, const std::optional<ShownResult>& shown) {
  std::vector<std::string> parts;
  if (shown && shown->result.count > 0 && std::isfinite(shown->result.accuracy)) {
    const SplitResult& result = shown->result;
    parts.push_back(concat(right_share(result.correct, result.count), " right (",
                           grouped(result.correct), " of ", grouped(result.count), ' ',
                           to_string(shown->split), ' ', name_samples(run), ')'));
  }
  if (!run.classes.empty()) parts.push_back(concat(run.classes.size(), " classes"));
  for (const auto& [name, size] : run.splits) {
    if (name == to_string(Split::kTrain)) {
      parts.push_back(concat(grouped(size.samples), " training ", name_samples(run)));
    }
  }
  if (!run.finished) parts.push_back("not finished");
  std::string text = join(parts, ", ");
  if (shown) text += "; with " + shown->checkpoint;
  return text;
}

Document classes_section(const RunFiles& run, const std::optional<ShownResult>& shown) {
  if (!shown) return {};
  const SplitResult& result = shown->result;
  const std::string source = concat(" (", to_string(shown->split), ", ", shown->checkpoint, ")");
  Document section;
  if (!result.multi_label.empty()) {
    section.add(Heading{"Labels" + source});
    section.add(Paragraph{describe_label_means(result.multi_label)});
    section.add(label_table(result.multi_label, {}, run.classes));
    section.add(label_counts_table(result.multi_label, run.classes));
  } else if (!result.classes.empty()) {
    section.add(Heading{"Classes" + source});
    const std::vector<engine::ClassScores> scores = engine::class_scores(result.classes);
    const engine::ClassMeans means = engine::class_means(result.classes);
    const bool has_samples = !std::isnan(means.f1_weighted);
    if (has_samples) section.add(Paragraph{describe_class_means(means, shown->auc)});
    if (result.classes.size() <= kMaxPageClasses) {
      section.add(stored_matrix(run, result));
    } else {
      section.add(mistakes_table(result.confusions, scores, run.classes));
    }
    section.add(class_table(scores, run.classes));
  }
  return section;
}

}  // namespace

std::string right_share(std::int64_t right, std::int64_t count) {
  const double percent = std::round(100 * static_cast<double>(right) / static_cast<double>(count));
  return fixed(right == count ? 100 : std::min(99.0, percent), 0) + " %";
}

Charts run_charts(const RunFiles& whole_run) {
  const RunFiles run = with_steps_as_metrics(whole_run);
  const std::string x = run.steps_per_epoch > 0 ? "epoch" : "step";
  Charts charts{{"loss", "Loss", x, "loss (mean over samples)",
                 make_series(run, &MetricsRow::loss, false), true},
                {"accuracy", "Accuracy", x, "accuracy (share of samples)",
                 make_series(run, &MetricsRow::accuracy, false)},
                {"learning-rate", "Learning rate", x, "learning rate",
                 make_series(run, &MetricsRow::learning_rate, true), true},
                {"throughput", "Throughput", x, "images/second",
                 make_series(run, &MetricsRow::images_per_second, true), true}};
  for (Chart& chart : charts) {
    const bool is_of_metrics = chart.id == "loss" || chart.id == "accuracy";
    if (!is_of_metrics || !run.best) continue;
    chart.mark = Chart::Mark{chart_x(run, run.best->step),
                             concat("best ", run.best->metric, ' ', fixed(run.best->value, 4))};
  }
  std::erase_if(charts, [](const Chart& chart) { return chart.series.empty(); });
  return charts;
}

Document run_report(const RunFiles& run, const Mistakes& mistakes) {
  const std::optional<ShownResult> shown = find_shown_result(run, mistakes);
  Document page{"Run " + run.name};
  if (const std::string result = describe_result(run, shown); !result.empty()) {
    page.add(Paragraph{result, Paragraph::Kind::kHeadline});
  }
  page.add(Paragraph{run.folder.string(), Paragraph::Kind::kSubtitle});
  page.add(results_table(run));
  page.add(Heading{"Curves"});
  page.add(run_charts(run));
  page.append(classes_section(run, shown));
  page.append(probabilities_section(run));
  page.append(mistakes_section(mistakes));
  page.append(step_time_section(run));
  page.append(device_section(run));
  page.append(data_section(run));
  if (!run.warnings.empty()) page.add(Heading{"Warnings of training"});
  for (const RunWarning& warning : run.warnings) {
    page.add(Notice(concat(warning.time, ": ", warning.text)));
  }
  page.add(Heading{"Environment"});
  page.add(make_list("What made the run", run.origin));
  page.add(Heading{"Config"});
  page.add(Folded{"Every value of the config", {{make_list("Config", run.config)}}});
  return page;
}

}  // namespace trainer::results
