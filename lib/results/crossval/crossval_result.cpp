#include "results/crossval/crossval_result.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/formats/table.h"
#include "results/read_json.h"

namespace trainer::results {
namespace {

// Returns "0.9123 (0.9011 to 0.9213)", or the value alone where there is no interval.
std::string all_text(const FoldMetric& metric) {
  if (!metric.all) return "-";
  if (!metric.all_low || !std::isfinite(*metric.all_low)) return fixed(*metric.all, 4);
  return concat(fixed(*metric.all, 4), " (", fixed_or_dash(metric.all_low, 4), " to ",
                fixed_or_dash(metric.all_high, 4), ")");
}

std::string interval_text(const Estimate& estimate) {
  if (!std::isfinite(estimate.low)) return "-";
  return concat(fixed(estimate.low, 4), " to ", fixed_or_dash(estimate.high, 4));
}

// Returns a row per label: AUC and average precision.
Table make_label_table(const CrossvalResult& result) {
  Table table({"label", "AUC: mean", "95 % interval", "all samples", "average precision: mean",
               "95 % interval", "all samples"},
              NumbersFrom{1}, "Metrics of every label");
  for (const LabelMetrics& label : result.labels) {
    std::vector<std::string> row{label.label};
    for (const FoldMetric* metric : {&label.auc, &label.average_precision}) {
      row.push_back(fixed_or_dash(metric->estimate.mean, 4));
      row.push_back(interval_text(metric->estimate));
      row.push_back(all_text(*metric));
    }
    table.add(std::move(row));
  }
  return table;
}

// Returns a row per metric, with a column for each of few folds.
Table make_metric_table(const CrossvalResult& result, bool lists_folds) {
  std::vector<std::string> header{"metric", "mean", "95 % interval", "all samples"};
  if (lists_folds) {
    for (const FoldRun& fold : result.folds) header.push_back(concat("fold ", fold.fold));
  }
  Table table(header, NumbersFrom{1}, "Metrics of the predictions that each run made for its fold");
  for (const auto& [name, metric] : result.metrics) {
    std::vector<std::string> row{name, fixed_or_dash(metric.estimate.mean, 4),
                                 interval_text(metric.estimate), all_text(metric)};
    for (std::size_t i = 0; lists_folds && i < metric.values.size(); ++i) {
      row.push_back(fixed_or_dash(metric.values[i], 4));
    }
    table.add(std::move(row));
  }
  return table;
}

// Returns what does not fit together in a damaged file; "" for another.
std::string find_damage(const CrossvalResult& result) {
  const std::size_t folds = result.folds.size();
  for (const auto& [name, metric] : result.metrics) {
    if (metric.values.size() != folds) {
      return concat("metrics.", name, ".folds does not have a value for each fold");
    }
  }
  const auto& calibration = result.decisions.calibration;
  if (calibration && calibration->temperatures.size() != folds) {
    return "calibration.fold_temperatures does not have a value for each fold";
  }
  const auto& matrix = result.confusion.matrix;
  const std::size_t classes = result.classes.size();
  const auto is_whole = [classes](const auto& row) { return row.size() == classes; };
  if (matrix && !(matrix->size() == classes && std::ranges::all_of(*matrix, is_whole))) {
    return "confusion is not a matrix with a count for each pair of classes";
  }
  return "";
}

}  // namespace

void fields(FieldVisitor& v, FoldMetric& metric) {
  v("mean", metric.estimate.mean, "Mean over the folds that have the metric.");
  v("low", metric.estimate.low, "Lower end of its 95 % interval (Student).");
  v("high", metric.estimate.high, "Upper end of its 95 % interval (Student).");
  v("all", metric.all, "The value for all samples together.");
  v("folds", metric.values, "The value of each fold.");
  v.when_present("all_low", metric.all_low, "Lower end of the 95 % interval of `all`.");
  v.when_present("all_high", metric.all_high, "Upper end of the 95 % interval of `all`.");
}

void fields(FieldVisitor& v, LabelMetrics& label) {
  v("label", label.label, "The name of the label.");
  count_fields(v, label.counts);
  v("auc", label.auc, "Area under the ROC curve.");
  v("average_precision", label.average_precision, "Average precision.");
}

void fields(FieldVisitor& v, FoldRun& run) {
  v("fold", run.fold, "The number of the fold, from 1.");
  v("step", run.step, kSteps, "The step of the checkpoint of its run.");
  v("count", run.count, kSamples, "Samples of the fold.");
}

void fields(FieldVisitor& v, CrossvalResult& result) {
  v.event("crossval");
  v("name", result.name, "The name of the config.");
  v("checkpoint", result.checkpoint, "The checkpoint of each run.");
  v("count", result.count, kSamples, "Samples of all folds.");
  v("metrics", result.metrics, "Metrics over the folds, by name.");
  v("folds", result.folds, "The run of each fold.");
  v("classes", result.classes, "Names of the classes or labels.");
  fields(v, result.confusion);
  v.when_present("labels", result.labels, "Metrics of each label.");
  fields(v, result.decisions);
}

CrossvalResult read_crossval(const Path& folder) {
  const JsonSource source{
      (folder / kCrossvalFile).string(),
      "give the same `trainer crossval` command again with --collect, which writes it anew"};
  auto result = read_result<CrossvalResult>(source);
  if (!result) throw DataError(source.file, "does not exist; ", source.advice);
  const std::string damage = find_damage(*result);
  if (damage.empty()) return *std::move(result);
  throw DataError(source.file, "is damaged: ", damage, "; ", source.advice);
}

Document show_fold_metrics(const CrossvalResult& result, std::size_t max_folds) {
  Document document;
  document.add(make_metric_table(result, result.folds.size() <= max_folds));
  if (result.labels.empty()) return document;
  document.add(BlankLine{});
  document.add(make_label_table(result));
  return document;
}

void print_crossval(const CrossvalResult& result, const Path& folder, bool brief,
                    std::ostream& out) {
  constexpr std::size_t kMaxListed = 10;
  out << render_text(show_fold_metrics(result, kMaxListed))
      << render_text(show_fold_decisions(result.decisions, brief)) << (brief ? "" : "\n")
      << grouped(result.count) << " samples in " << result.folds.size()
      << " folds, each predicted by the run that has not trained on it: "
      << (folder / "out_of_fold.csv").string() << "\nreport: " << (folder / "report.html").string()
      << '\n';
}

}  // namespace trainer::results
