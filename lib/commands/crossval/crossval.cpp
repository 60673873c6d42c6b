#include "commands/crossval/crossval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/open_model/find_class.h"
#include "commands/open_model/stored_result.h"
#include "hooks/formats/metrics_json.h"
#include "train/open.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::ordered_json;

// Returns, for each class or label, how many folds lack what its metrics need: a sample of the
// class, or samples with the label and without it.
std::vector<std::int64_t> count_lacking_folds(const std::vector<FoldResult>& folds) {
  std::vector<std::int64_t> lacking;
  const auto count = [&](std::size_t index, bool lacks) {
    lacking.resize(std::max(lacking.size(), index + 1));
    lacking[index] += lacks ? 1 : 0;
  };
  for (const FoldResult& fold : folds) {
    const std::vector<engine::LabelResult>& labels = fold.metrics.multi_label.labels;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      count(i, labels[i].positives == 0 || labels[i].negatives == 0);
    }
    const std::vector<engine::ClassCounts> classes = fold.metrics.confusion.class_counts();
    for (std::size_t i = 0; i < classes.size(); ++i) count(i, classes[i].support == 0);
  }
  return lacking;
}

// Returns whether the folds have samples of different classes.
bool is_uneven(const std::vector<FoldResult>& folds) {
  const auto count = static_cast<std::int64_t>(folds.size());
  const std::vector<std::int64_t> lacking = count_lacking_folds(folds);
  return std::ranges::any_of(lacking, [&](std::int64_t n) { return n > 0 && n < count; });
}

// Returns whether a metric is a mean over the classes or labels that a split has samples of.
bool is_class_mean(std::string_view name) {
  return name == "auc" || name == "average_precision" || name == "f1_macro" ||
         name == "balanced_accuracy";
}

// Names the classes that some folds lack; "" if there are none.
std::string describe_lacking(const std::vector<FoldResult>& folds,
                             const std::vector<std::string>& classes) {
  if (!is_uneven(folds)) return "";
  constexpr std::size_t kMaxNames = 6;
  const std::vector<std::int64_t> lacking = count_lacking_folds(folds);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < lacking.size(); ++i) {
    if (lacking[i] == 0) continue;
    names.push_back(concat(class_name(classes, i), " (", lacking[i], " folds)"));
  }
  return concat("the validation samples of some folds lack a class: ",
                printable(join_first(names, kMaxNames)),
                "; metrics that are means over classes measure other classes there, so that they "
                "have no mean over the folds. Give fewer folds, or more images of these classes");
}

// Sets the values of a metric by fold, and their mean and interval. Returns whether a fold has one.
template <class Value>
bool set_folds(FoldMetric& metric, const std::vector<FoldResult>& folds, const Value& value) {
  std::vector<double> known;
  for (const FoldResult& fold : folds) {
    const double found = value(fold.metrics);
    metric.values.push_back(found);
    if (std::isfinite(found)) known.push_back(found);
  }
  if (known.empty()) return false;
  metric.estimate = metric.name == "loss" ? estimate(known) : estimate_share(known);
  return true;
}

std::vector<FoldMetric> make_metrics(const std::vector<FoldResult>& folds,
                                     const engine::Metrics& all, const FoldDecisions& decisions) {
  std::vector<FoldMetric> metrics;
  const bool lacks_means = is_uneven(folds);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, value] : engine::named_metrics(all)) {
    FoldMetric metric{std::string(name), {}, {}, value, {}};
    if (name == "accuracy" && std::isfinite(value)) metric.all_interval = all.accuracy_interval;
    if (name == "auc" && decisions.auc) metric.all_interval = decisions.auc->interval;
    const auto find = [name = name](const engine::Metrics& one) {
      for (const auto& [other, number] : engine::named_metrics(one)) {
        if (other == name) return number;
      }
      return std::numeric_limits<double>::quiet_NaN();
    };
    if (!set_folds(metric, folds, find)) continue;
    if (lacks_means && is_class_mean(name)) metric.estimate = {kNone, kNone, kNone};
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

// Returns the interval of the area of a label; nothing without a curve.
std::optional<engine::Interval> find_area_interval(const FoldDecisions& decisions,
                                                   const std::string& label) {
  if (!decisions.curves) return std::nullopt;
  for (const ClassCurves& one : decisions.curves->classes) {
    if (one.name == label) return one.roc_area.interval;
  }
  return std::nullopt;
}

FoldMetric make_label_metric(const char* name, double engine::LabelResult::*value,
                             std::size_t label, const std::vector<FoldResult>& folds,
                             const engine::Metrics& all) {
  FoldMetric metric{name, {}, {}, {}, {}};
  const double of_all = all.multi_label.labels[label].*value;
  if (!std::isnan(of_all)) metric.all = of_all;
  const double none = std::numeric_limits<double>::quiet_NaN();
  metric.estimate = {none, none, none};
  set_folds(metric, folds,
            [&](const engine::Metrics& one) { return one.multi_label.labels[label].*value; });
  return metric;
}

std::vector<LabelMetrics> make_label_metrics(const CrossvalResult& result) {
  std::vector<LabelMetrics> labels;
  for (std::size_t i = 0; i < result.all.multi_label.labels.size(); ++i) {
    LabelMetrics label;
    label.auc = make_label_metric("auc", &engine::LabelResult::auc, i, result.folds, result.all);
    label.auc.all_interval = find_area_interval(result.decisions, result.classes[i]);
    label.average_precision = make_label_metric(
        "average_precision", &engine::LabelResult::average_precision, i, result.folds, result.all);
    labels.push_back(std::move(label));
  }
  return labels;
}

// Throws ConfigError if the options do not fit the training images.
void check_data(const config::Config& config, const DecisionOptions& decisions) {
  if (decisions.operating_point.empty() && decisions.positive_class.empty()) return;
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  const bool is_single = config.model.loss == LossKind::kBinaryCrossEntropy && data.label_is_index;
  const auto outputs = is_single ? 1 : static_cast<std::int64_t>(data.classes.size());
  check_fold_options(decisions, config.model.loss, outputs, data.classes);
}

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
Json metric_json(const FoldMetric& metric) {
  Json json{{"mean", metric.estimate.mean},
            {"low", metric.estimate.low},
            {"high", metric.estimate.high},
            {"all", metric.all ? Json(*metric.all) : Json(nullptr)},
            {"folds", metric.values}};
  if (const auto& interval = metric.all_interval) {
    json["all_low"] = interval->low;
    json["all_high"] = interval->high;
  }
  return json;
}

// Returns an object per label: its counts over all samples, and its metrics.
Json label_metrics_json(const CrossvalResult& result) {
  Json labels = hooks::labels_json(result.all.multi_label);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    Json named{{"label", result.classes[i]}};
    named.update(labels[i]);
    named["auc"] = metric_json(result.labels[i].auc);
    named["average_precision"] = metric_json(result.labels[i].average_precision);
    labels[i] = std::move(named);
  }
  return labels;
}

Json make_json(const CrossvalResult& result) {
  Json json{{"event", "crossval"},
            {"name", result.name},
            {"checkpoint", to_string(result.checkpoint)},
            {"count", result.all.count}};
  json["metrics"] = Json::object();
  for (const FoldMetric& metric : result.metrics)
    json["metrics"][metric.name] = metric_json(metric);
  json["folds"] = Json::array();
  for (const FoldResult& fold : result.folds) {
    json["folds"].push_back(
        {{"fold", fold.fold}, {"step", fold.step}, {"count", fold.metrics.count}});
  }
  json["classes"] = result.classes;
  if (result.labels.empty()) {
    hooks::add_confusion(json, result.all.confusion);
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
              {1, 2, 3, 4, 5, 6});
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

SweepPlan plan_crossval(const std::string& config, std::optional<std::int64_t> folds,
                        const std::vector<config::Override>& overrides,
                        const config::Environment& environment, const Path& folder,
                        const DecisionOptions& decisions) {
  const config::Config loaded = config::load_config(config, overrides, environment).config;
  check_data(loaded, decisions);
  const std::int64_t count = folds ? *folds : loaded.data.folds.value_or(kDefaultFolds);
  std::vector<config::Override> all = overrides;
  if (loaded.data.folds != count) all.push_back({"data.folds", std::to_string(count), "--folds"});
  Axis axis{"data.fold", {}};
  for (std::int64_t fold = 1; fold <= count; ++fold) axis.values.push_back(std::to_string(fold));
  SweepPlan plan =
      plan_sweep(config, {axis}, all, environment,
                 folder.empty() ? Path("runs") / concat(loaded.name, "_crossval") : folder, count);
  // A sweep keeps these variables, as lists, from its runs. Here they are values of every run.
  for (const char* name : {"NUM_GPUS", "BATCH_SIZE", "LEARNING_RATE"}) {
    const auto found = environment.find(name);
    if (found == environment.end()) continue;
    for (Point& point : plan.points) point.environment[name] = found->second;
  }
  return plan;
}

CrossvalResult collect_folds(const SweepPlan& plan, CheckpointChoice checkpoint,
                             const DecisionOptions& decisions,
                             const std::function<void(const Notice&)>& warn) {
  CrossvalResult result;
  result.name = plan.name;
  result.checkpoint = checkpoint;
  OutOfFold predictions;
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    result.folds.push_back(predictions.add_fold(plan.folder / plan.points[i].name,
                                                static_cast<std::int64_t>(i) + 1, checkpoint,
                                                plan.environment, warn));
  }
  result.classes = predictions.classes();
  result.all = predictions.metrics();
  if (predictions.is_multi_label()) {
    result.decisions = draw_label_curves(predictions.label_scores(), result.classes, warn);
  } else if (const auto scores = predictions.class_scores(); !scores.empty()) {
    result.decisions = decide_by_folds(scores, result.classes, decisions, warn);
  } else if (!decisions.operating_point.empty()) {
    warn("there is no operating point: there are too many predictions to keep");
  }
  warn(describe_lacking(result.folds, result.classes));
  result.metrics = make_metrics(result.folds, result.all, result.decisions);
  result.labels = make_label_metrics(result);
  write_file_atomic(plan.folder / "out_of_fold.csv", predictions.csv());
  write_file_atomic(plan.folder / kCrossvalFile, to_json_line(make_json(result)) + "\n");
  return result;
}

CheckpointChoice read_crossval_checkpoint(const Path& folder) {
  const Path file = folder / kCrossvalFile;
  const std::string advice = "give the same `trainer crossval` command again with --collect";
  const std::optional<Json> json = read_result(file, advice);
  const Json checkpoint = json ? json->value("checkpoint", Json()) : Json();
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
  std::vector<std::size_t> right;
  for (std::size_t i = 1; i < header.size(); ++i) right.push_back(i);
  Table table(header, right);
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

}  // namespace trainer::commands
