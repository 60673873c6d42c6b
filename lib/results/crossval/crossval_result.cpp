#include "results/crossval/crossval_result.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "results/json.h"
#include "results/metrics.h"
#include "results/run_files/result_files.h"

namespace trainer::results {
namespace {

using CrossvalJson = nlohmann::ordered_json;

// Returns "0.9123 (0.9011 to 0.9213)", or the value alone where there is no interval.
std::string all_text(const FoldMetric& metric) {
  if (!metric.all) return "-";
  const auto& interval = metric.all_interval;
  if (!interval || !std::isfinite(interval->low)) return fixed(*metric.all, 4);
  return concat(fixed(*metric.all, 4), " (", fixed(interval->low, 4), " to ",
                fixed(interval->high, 4), ")");
}

std::string interval_text(const Estimate& estimate) {
  if (!std::isfinite(estimate.low)) return "-";
  return concat(fixed(estimate.low, 4), " to ", fixed(estimate.high, 4));
}

// Values that are not finite become null; see to_json_line().
CrossvalJson metric_json(const FoldMetric& metric) {
  CrossvalJson json{{"mean", metric.estimate.mean},
                    {"low", metric.estimate.low},
                    {"high", metric.estimate.high},
                    {"all", metric.all ? CrossvalJson(*metric.all) : CrossvalJson(nullptr)},
                    {"folds", metric.values}};
  if (const auto& interval = metric.all_interval) {
    json["all_low"] = interval->low;
    json["all_high"] = interval->high;
  }
  return json;
}

// Returns an object per label: its counts over all samples, and its metrics.
CrossvalJson label_metrics_json(const CrossvalResult& result) {
  CrossvalJson labels = to_json(result.all.multi_label.labels);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    CrossvalJson named{{"label", result.classes[i]}};
    named.update(labels[i]);
    named["auc"] = metric_json(result.labels[i].auc);
    named["average_precision"] = metric_json(result.labels[i].average_precision);
    labels[i] = std::move(named);
  }
  return labels;
}

CrossvalJson make_json(const CrossvalResult& result) {
  CrossvalJson json{{"event", "crossval"},
                    {"name", result.name},
                    {"checkpoint", to_string(result.checkpoint)},
                    {"count", result.all.count}};
  json["metrics"] = CrossvalJson::object();
  for (const FoldMetric& metric : result.metrics)
    json["metrics"][metric.name] = metric_json(metric);
  json["folds"] = CrossvalJson::array();
  for (const FoldResult& fold : result.folds) {
    json["folds"].push_back(
        {{"fold", fold.fold}, {"step", fold.step}, {"count", fold.metrics.count}});
  }
  json["classes"] = result.classes;
  if (result.labels.empty()) {
    json.update(to_json(count_confusions(result.all.confusion)));
  } else {
    json["labels"] = label_metrics_json(result);
  }
  add_fold_decisions(json, result.decisions);
  return json;
}

// Prints a row per label: AUC and average precision.
void print_label_metrics(const CrossvalResult& result, std::ostream& out) {
  Table table({"label", "AUC: mean", "95 % interval", "all samples", "average precision: mean",
               "95 % interval", "all samples"},
              NumbersFrom{1});
  for (std::size_t i = 0; i < result.labels.size(); ++i) {
    std::vector<std::string> row{result.classes[i]};
    for (const FoldMetric* metric : {&result.labels[i].auc, &result.labels[i].average_precision}) {
      row.push_back(fixed_or_dash(metric->estimate.mean, 4));
      row.push_back(interval_text(metric->estimate));
      row.push_back(all_text(*metric));
    }
    table.add(std::move(row));
  }
  out << '\n';
  table.print(out);
}

}  // namespace

CheckpointChoice read_crossval_checkpoint(const Path& folder) {
  const Path file = folder / kCrossvalFile;
  const std::string advice = "give the same `trainer crossval` command again with --collect";
  const std::optional<CrossvalJson> json = read_result(file, advice);
  const CrossvalJson checkpoint = json ? json->value("checkpoint", CrossvalJson()) : CrossvalJson();
  if (checkpoint == to_string(CheckpointChoice::kBest)) return CheckpointChoice::kBest;
  if (checkpoint == to_string(CheckpointChoice::kLast)) return CheckpointChoice::kLast;
  throw DataError(file, concat("does not name the checkpoint of its predictions; ", advice));
}

void print_crossval(const CrossvalResult& result, const Path& folder, bool brief,
                    std::ostream& out) {
  constexpr std::size_t kMaxListed = 10;
  const bool lists_folds = result.folds.size() <= kMaxListed;
  std::vector<std::string> header{"metric", "mean", "95 % interval", "all samples"};
  if (lists_folds) {
    for (const FoldResult& fold : result.folds) header.push_back(concat("fold ", fold.fold));
  }
  Table table(header, NumbersFrom{1});
  for (const FoldMetric& metric : result.metrics) {
    std::vector<std::string> row{metric.name, fixed_or_dash(metric.estimate.mean, 4),
                                 interval_text(metric.estimate), all_text(metric)};
    for (std::size_t i = 0; lists_folds && i < metric.values.size(); ++i) {
      row.push_back(fixed_or_dash(metric.values[i], 4));
    }
    table.add(std::move(row));
  }
  table.print(out);
  if (!result.labels.empty()) print_label_metrics(result, out);
  print_fold_decisions(result.decisions, brief, out);
  out << (brief ? "" : "\n") << grouped(result.all.count) << " samples in " << result.folds.size()
      << " folds, each predicted by the run that has not trained on it: "
      << (folder / "out_of_fold.csv").string() << "\nreport: " << (folder / "report.html").string()
      << '\n';
}

std::string crossval_json(const CrossvalResult& result) { return to_json_line(make_json(result)); }

}  // namespace trainer::results
