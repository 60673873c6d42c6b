#include "commands/crossval/crossval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/crossval/out_of_fold.h"
#include "commands/new/image_config.h"
#include "results/crossval/fold_decisions.h"
#include "results/evaluation/find_class.h"
#include "results/pages/html.h"
#include "results/run_files/statistics.h"
#include "results/sweeps/table.h"
#include "results/write_json.h"
#include "train/open.h"

namespace trainer::commands {
namespace {

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
    names.push_back(concat(results::class_name(classes, i), " (", lacking[i], " folds)"));
  }
  return concat("the validation samples of some folds lack a class: ",
                printable(join_first(names, kMaxNames)),
                "; metrics that are means over classes measure other classes there, so that they "
                "have no mean over the folds. Give fewer folds, or more images of these classes");
}

void set_interval(results::FoldMetric& metric, const engine::Interval& interval) {
  metric.all_low = interval.low;
  metric.all_high = interval.high;
}

// Sets the values of a metric by fold, and their mean and interval. Returns whether a fold has one.
template <class Value>
bool set_folds(std::string_view name, results::FoldMetric& metric,
               const std::vector<FoldResult>& folds, const Value& value) {
  std::vector<double> known;
  for (const FoldResult& fold : folds) {
    const double found = value(fold.metrics);
    metric.values.push_back(found);
    if (std::isfinite(found)) known.push_back(found);
  }
  if (known.empty()) return false;
  metric.estimate = name == "loss" ? results::estimate(known) : results::estimate_share(known);
  return true;
}

std::vector<std::pair<std::string, results::FoldMetric>> make_metrics(
    const std::vector<FoldResult>& folds, const engine::Metrics& all,
    const results::FoldDecisions& decisions) {
  std::vector<std::pair<std::string, results::FoldMetric>> metrics;
  const bool lacks_means = is_uneven(folds);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, value] : engine::named_metrics(all)) {
    results::FoldMetric metric;
    metric.all = value;
    if (name == "accuracy" && std::isfinite(value)) set_interval(metric, all.accuracy_interval);
    if (name == "auc" && decisions.auc) set_interval(metric, decisions.auc->interval);
    const auto find = [name = name](const engine::Metrics& one) {
      for (const auto& [other, number] : engine::named_metrics(one)) {
        if (other == name) return number;
      }
      return std::numeric_limits<double>::quiet_NaN();
    };
    if (!set_folds(name, metric, folds, find)) continue;
    if (lacks_means && is_class_mean(name)) metric.estimate = {kNone, kNone, kNone};
    metrics.emplace_back(name, std::move(metric));
  }
  return metrics;
}

results::FoldMetric make_label_metric(const char* name, double engine::LabelResult::*value,
                                      std::size_t label, const std::vector<FoldResult>& folds,
                                      const engine::Metrics& all) {
  results::FoldMetric metric;
  const double of_all = all.multi_label.labels[label].*value;
  if (!std::isnan(of_all)) metric.all = of_all;
  const double none = std::numeric_limits<double>::quiet_NaN();
  metric.estimate = {none, none, none};
  set_folds(name, metric, folds,
            [&](const engine::Metrics& one) { return one.multi_label.labels[label].*value; });
  return metric;
}

// Returns the interval of the AUC of a label; null if there are no curves of it.
const engine::Interval* find_auc_interval(const results::FoldDecisions& decisions,
                                          const std::string& label) {
  if (!decisions.curves) return nullptr;
  for (const results::ClassCurves& curves : decisions.curves->classes) {
    if (curves.name == label) return &curves.roc_area.interval;
  }
  return nullptr;
}

std::vector<results::LabelMetrics> make_label_metrics(const std::vector<FoldResult>& folds,
                                                      const engine::Metrics& all,
                                                      const std::vector<std::string>& names,
                                                      const results::FoldDecisions& decisions) {
  using engine::LabelResult;
  std::vector<results::LabelMetrics> labels;
  for (std::size_t i = 0; i < all.multi_label.labels.size(); ++i) {
    results::LabelMetrics& label = labels.emplace_back();
    label.label = names[i];
    label.counts = all.multi_label.labels[i];
    label.auc = make_label_metric("auc", &LabelResult::auc, i, folds, all);
    label.average_precision =
        make_label_metric("average_precision", &LabelResult::average_precision, i, folds, all);
    const engine::Interval* interval = find_auc_interval(decisions, label.label);
    if (interval != nullptr) set_interval(label.auc, *interval);
  }
  return labels;
}

// Throws ConfigError if the options do not fit the training images.
void check_data(const config::Config& config, const results::DecisionOptions& decisions) {
  if (decisions.operating_point.empty() && decisions.positive_class.empty()) return;
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  const std::int64_t outputs =
      model::count_outputs(config.model.loss, data.label_is_index, std::ssize(data.classes));
  results::check_fold_options(decisions, config.model.loss, outputs, data.classes);
}

// Returns a sweep over data.fold. Throws ConfigError, also for decisions that the model cannot
// follow.
results::SweepPlan plan_crossval(const CrossvalArguments& arguments, const Context& context) {
  const std::string config = find_config(arguments.path, arguments.overrides, context);
  const config::Environment& environment = context.environment;
  const config::Config loaded =
      config::load_config(config, arguments.overrides, environment).config;
  check_data(loaded, arguments.decisions);
  const std::int64_t count =
      arguments.folds ? *arguments.folds : loaded.data.folds.value_or(kDefaultFolds);
  std::vector<config::Override> all = arguments.overrides;
  if (loaded.data.folds != count) all.push_back({"data.folds", std::to_string(count), "--folds"});
  results::Axis axis{"data.fold", {}};
  for (std::int64_t fold = 1; fold <= count; ++fold) axis.values.push_back(std::to_string(fold));
  const Path folder = arguments.folder.empty() ? Path("runs") / concat(loaded.name, "_crossval")
                                               : Path(arguments.folder);
  results::SweepPlan plan = results::plan_sweep(config, {axis}, all, environment, folder, count);
  // A sweep keeps these variables, as lists, from its runs. Here they are values of every run.
  for (const char* name : {"NUM_GPUS", "BATCH_SIZE", "LEARNING_RATE"}) {
    const auto found = environment.find(name);
    if (found == environment.end()) continue;
    for (results::Point& point : plan.points) point.environment[name] = found->second;
  }
  return plan;
}

// Predicts each fold by its run, and writes out_of_fold.csv and crossval.json. All points must have
// finished. kLast is the state at the end of training; kBest the checkpoint that run.best chose by
// this fold, with which the metrics are too good. Throws DataError, also if the data is not what it
// was when a run was trained.
results::CrossvalResult collect_folds(const results::SweepPlan& plan,
                                      results::CheckpointChoice checkpoint,
                                      const results::DecisionOptions& decisions, const Warn& warn) {
  std::vector<FoldResult> folds;
  OutOfFold predictions;
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    folds.push_back(predictions.add_fold(plan.folder / plan.points[i].name,
                                         static_cast<std::int64_t>(i) + 1, checkpoint,
                                         {{}, plan.environment, warn}));
  }
  const engine::Metrics all = predictions.metrics();
  results::CrossvalResult result;
  result.name = plan.name;
  result.checkpoint = checkpoint;
  result.count = all.count;
  result.classes = predictions.classes();
  for (const FoldResult& fold : folds) {
    result.folds.push_back({fold.fold, fold.step, fold.metrics.count});
  }
  if (predictions.is_multi_label()) {
    result.decisions = results::draw_label_curves(predictions.label_scores(), result.classes, warn);
  } else if (const auto scores = predictions.class_scores(); !scores.empty()) {
    result.decisions = results::decide_by_folds(scores, result.classes, decisions, warn);
  } else if (!decisions.operating_point.empty()) {
    warn("there is no operating point: there are too many predictions to keep");
  }
  warn(describe_lacking(folds, result.classes));
  result.metrics = make_metrics(folds, all, result.decisions);
  result.labels = make_label_metrics(folds, all, result.classes, result.decisions);
  if (result.labels.empty()) result.confusion = results::count_confusions(all.confusion);
  write_file_atomic(plan.folder / "out_of_fold.csv", predictions.csv());
  write_file_atomic(plan.folder / results::kCrossvalFile, results::to_line(result));
  return result;
}

}  // namespace

int execute(const CrossvalArguments& arguments, const Context& context) {
  const results::SweepPlan plan = plan_crossval(arguments, context);
  if (arguments.collect) {
    results::check_runs(plan);
  } else {
    results::write_plan(plan);
  }
  const auto checkpoint =
      arguments.best ? results::CheckpointChoice::kBest : results::CheckpointChoice::kLast;
  std::vector<results::PointState> points = train_or_collect(arguments, plan, checkpoint, context);
  const auto missing = std::ranges::count_if(
      points, [](const results::PointState& point) { return !point.is_done(); });
  const int code = results::find_exit_code(points);
  const results::Summary summary =
      results::summarize(plan, std::move(points), std::nullopt, checkpoint);
  results::write_tables(summary, plan.folder);
  const Path report = plan.folder / "report.html";
  if (missing > 0) {
    results::write_report(results::sweep_report(summary), report, plan.folder);
    if (!arguments.json) {
      context.out << '\n';
      results::print_summary(summary, plan.folder, context.terminal_width(), context.out);
    }
    context.warn(
        concat(missing, " of ", plan.points.size(), " folds have no results; ",
               arguments.collect ? "give the same command without --collect to train them"
                                 : "give the same command again to go on",
               results::has_damaged(summary.points) ? ", after you removed the damaged ones" : ""));
    return code;
  }
  const results::CrossvalResult result =
      collect_folds(plan, checkpoint, arguments.decisions, context.warn);
  results::write_report(results::crossval_report(summary, {}, plan.folder), report, plan.folder);
  if (arguments.json) {
    results::print_json(result, context.out);
  } else {
    if (!arguments.quiet && !arguments.collect) context.out << '\n';
    results::print_crossval(result, plan.folder, arguments.quiet, context.out);
  }
  return kExitOk;
}

}  // namespace trainer::commands
