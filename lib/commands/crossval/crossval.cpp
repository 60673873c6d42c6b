#include "commands/crossval/crossval.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/csv.h"
#include "base/formats/table.h"
#include "base/notice.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "commands/new/image_config.h"
#include "data/samples/loader.h"
#include "engine/engine.h"
#include "engine/evaluate.h"
#include "engine/metrics/binary_scores.h"
#include "engine/metrics/metrics.h"
#include "hooks/data_report.h"
#include "inference/open_model/open_model.h"
#include "inference/open_model/run_archive.h"
#include "inference/predict/predict.h"
#include "model/build_model.h"
#include "results/crossval/crossval_result.h"
#include "results/crossval/fold_decisions.h"
#include "results/evaluation/find_class.h"
#include "results/pages/html.h"
#include "results/run_files/statistics.h"
#include "results/sweeps/table.h"
#include "results/write_json.h"
#include "train/open.h"

namespace trainer::commands {
namespace {

struct FoldResult {
  std::int64_t fold = 0, step = 0;  // the step of the checkpoint
  engine::Metrics metrics;          // metrics of the samples of the fold
};

// Collects the predictions of all folds.
class OutOfFold {
 public:
  // Predicts a fold by its run.
  FoldResult add_fold(const Path& run, std::int64_t fold, results::CheckpointChoice checkpoint,
                      const inference::OpenOptions& opening);

  // The names of the classes or, of samples with several labels, of the labels.
  const std::vector<std::string>& classes() const { return classes_; }
  bool is_multi_label() const { return labels_.has_value(); }

  // Returns the scores by fold; none if the outputs are not the probabilities of classes, or too
  // many for the limit of an AUC.
  std::vector<engine::LabelledLogits> class_scores() const;
  // Returns the scores of each label over the samples for which it is known; none if the samples
  // have classes, or if there are too many scores.
  std::vector<engine::BinaryScores> label_scores() const;

  // Returns the metrics of all samples together.
  engine::Metrics metrics() const;

  // Returns a header and a row per sample. With classes, the columns are file, fold, label, class,
  // probability, and p_NAME for each class; with several labels file, fold, y_NAME (1, 0 or empty
  // for an unknown label) and p_NAME for each label.
  std::string csv() const;

 private:
  // Starts the sums with the first fold; the others have the same classes (open_split()).
  void begin(const inference::OpenedModel& opened, const inference::OpenedSplit& split,
             std::int64_t outputs);
  void add_batch(const data::Dataset& dataset, const data::Batch& batch,
                 std::span<const float> logits, std::int64_t fold, LossKind loss);
  void add_class_row(const std::string& file, std::int64_t fold, std::span<const float> logits,
                     std::int32_t label, LossKind loss);
  void add_label_row(const std::string& file, std::int64_t fold, std::span<const float> logits,
                     std::span<const float> targets);

  std::vector<std::string> classes_;
  bool has_classes_ = false;
  bool is_of_classes_ = false;  // the outputs are the probabilities of classes
  std::int64_t max_scores_ = 0;
  std::vector<engine::LabelledLogits> scores_;  // indexed by fold
  std::optional<engine::MetricsAccumulator> all_;
  std::optional<engine::MultiLabelAccumulator> labels_;  // set if samples have several labels
  double loss_sum_ = 0;
  std::string rows_;
};

FoldResult OutOfFold::add_fold(const Path& run, std::int64_t fold,
                               results::CheckpointChoice checkpoint,
                               const inference::OpenOptions& opening) {
  const inference::OpenedModel opened = inference::open_trained(run.string(), checkpoint, opening);
  const inference::OpenedSplit split{Split::kValidation,
                                     inference::open_split(opened, Split::kValidation)};
  opening.warn(hooks::left_out(split.files(), split.split));
  const graph::Graph model = model::build_model(opened.config.model, opened.config.data,
                                                train::sample_spec(split.data), opened.config.seed);
  engine::Engine engine(model, opened.config, engine::open_backends(opened.config, opened.platform),
                        engine::Use::kEvaluate);
  engine.load(opened.file, opened.path);
  begin(opened, split, engine.replica().outputs());
  engine::EvaluateOptions options = engine::evaluate_options(opened.config);
  scores_.push_back({.outputs = engine.replica().outputs(), .logits = {}, .labels = {}});
  options.each_batch = [&](const data::Batch& batch, std::span<const float> logits) {
    add_batch(split.dataset(), batch, logits, fold, options.loss);
  };
  const engine::Metrics metrics = *engine::evaluate(engine, split.dataset(), options);
  loss_sum_ += metrics.loss * static_cast<double>(metrics.count);
  return {fold, opened.step, metrics};
}

std::vector<engine::LabelledLogits> OutOfFold::class_scores() const {
  std::size_t count = 0;
  for (const engine::LabelledLogits& fold : scores_) count += fold.logits.size();
  if (!is_of_classes_ || count > static_cast<std::size_t>(max_scores_)) return {};
  return scores_;
}

std::vector<engine::BinaryScores> OutOfFold::label_scores() const {
  if (!labels_ || labels_->logits().empty()) return {};
  std::vector<engine::BinaryScores> all(classes_.size());
  for (std::size_t i = 0; i < labels_->logits().size(); ++i) {
    const float target = labels_->targets()[i];
    if (std::isnan(target)) continue;
    engine::BinaryScores& label = all[i % all.size()];
    label.scores.push_back(static_cast<double>(labels_->logits()[i]));
    label.is_positive.push_back(target > 0.5f);
  }
  return all;
}

engine::Metrics OutOfFold::metrics() const {
  engine::Metrics all = all_->result();
  if (labels_) all.multi_label = labels_->result();
  all.loss = loss_sum_ / static_cast<double>(all.count);
  return all;
}

std::string OutOfFold::csv() const {
  std::string header = labels_ ? "file,fold" : "file,fold,label,class,probability";
  for (std::size_t i = 0; labels_ && i < classes_.size(); ++i) {
    header += ',' + csv_cell("y_" + classes_[i]);
  }
  for (const std::string& name : classes_) header += ',' + csv_cell("p_" + name);
  return header + '\n' + rows_;
}

void OutOfFold::begin(const inference::OpenedModel& opened, const inference::OpenedSplit& split,
                      std::int64_t outputs) {
  if (all_) return;
  classes_ = split.data.classes;
  const engine::EvaluateOptions options = engine::evaluate_options(opened.config);
  has_classes_ = engine::has_classes(split.dataset(), options.loss);
  is_of_classes_ =
      has_classes_ && engine::why_no_class_probabilities(options.loss, outputs).empty();
  max_scores_ = options.max_scores;
  all_.emplace(options.loss, outputs, options.top_k, has_classes_, options.max_scores);
  if (split.dataset().spec().is_multi_label()) labels_.emplace(outputs, options.max_scores);
}

void OutOfFold::add_batch(const data::Dataset& dataset, const data::Batch& batch,
                          std::span<const float> logits, std::int64_t fold, LossKind loss) {
  const std::vector<std::int32_t> labels = engine::label_indices(dataset, batch);
  const std::vector<float> losses(labels.size());  // metrics() has the sum of the folds
  all_->add(logits, losses, labels);
  if (is_of_classes_) {
    engine::LabelledLogits& scores = scores_.back();
    scores.logits.insert(scores.logits.end(), logits.begin(), logits.end());
    scores.labels.insert(scores.labels.end(), labels.begin(), labels.end());
  }
  std::span<const float> targets;  // [samples, labels] of several labels
  if (labels_) {
    targets = {static_cast<const float*>(batch.labels), logits.size()};
    labels_->add(logits, targets);
  }
  const std::size_t width = logits.size() / labels.size();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string file = csv_cell(dataset.describe(batch.indices[i]));
    const std::span<const float> output = logits.subspan(i * width, width);
    if (labels_) {
      add_label_row(file, fold, output, targets.subspan(i * width, width));
    } else {
      add_class_row(file, fold, output, labels[i], loss);
    }
  }
}

void OutOfFold::add_class_row(const std::string& file, std::int64_t fold,
                              std::span<const float> logits, std::int32_t label, LossKind loss) {
  const std::vector<double> probabilities = results::compute_probabilities(logits, loss);
  const auto predicted = static_cast<std::size_t>(engine::predicted_class(logits, loss));
  rows_ += concat(file, ',', fold, ',',
                  has_classes_ ? csv_cell(results::class_name(classes_, label)) : "", ',',
                  csv_cell(results::class_name(classes_, predicted)), ',',
                  csv_number(probabilities[predicted]));
  for (const double p : probabilities) rows_ += ',' + csv_number(p);
  rows_ += '\n';
}

void OutOfFold::add_label_row(const std::string& file, std::int64_t fold,
                              std::span<const float> logits, std::span<const float> targets) {
  rows_ += concat(file, ',', fold);
  for (const float target : targets) {
    rows_ += std::isnan(target) ? "," : ',' + csv_number(static_cast<double>(target));
  }
  for (const float logit : logits) {
    rows_ += ',' + csv_number(sigmoid(static_cast<double>(logit)));
  }
  rows_ += '\n';
}

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
  const bool is_single = config.model.loss == LossKind::kBinaryCrossEntropy && data.label_is_index;
  const auto outputs = is_single ? 1 : static_cast<std::int64_t>(data.classes.size());
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
  const auto scored =
      arguments.best ? results::ScoredCheckpoint::kBest : results::ScoredCheckpoint::kLast;
  std::vector<results::PointState> points = train_or_collect(arguments, plan, scored, context);
  const auto missing = std::ranges::count_if(
      points, [](const results::PointState& point) { return !point.is_done(); });
  const int code = results::find_exit_code(points);
  const results::Summary summary =
      results::summarize(plan, std::move(points), std::nullopt, scored);
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
  const results::CrossvalResult result = collect_folds(
      plan, arguments.best ? results::CheckpointChoice::kBest : results::CheckpointChoice::kLast,
      arguments.decisions, context.warn);
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
