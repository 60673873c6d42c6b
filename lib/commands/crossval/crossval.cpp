#include "commands/crossval/crossval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/formats/csv.h"
#include "base/formats/json.h"
#include "base/formats/table.h"
#include "commands/open_model/run_archive.h"
#include "commands/open_model/stored_result.h"
#include "commands/predict/predict.h"
#include "engine/evaluate.h"
#include "engine/replicas.h"
#include "hooks/data_report.h"
#include "hooks/formats/confusion_json.h"
#include "model/build_model.h"
#include "train/open.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::ordered_json;

// Collects the predictions of all folds.
class OutOfFold {
 public:
  // Predicts a fold by its run.
  FoldResult add_fold(const Path& run, std::int64_t fold, CheckpointChoice checkpoint,
                      const config::Environment& environment,
                      const std::function<void(const Notice&)>& warn) {
    const OpenedModel opened = open_trained(run.string(), checkpoint, {}, environment, warn);
    const OpenedSplit split{Split::kValidation, open_split(opened, Split::kValidation)};
    warn(hooks::left_out(split.files(), split.split));
    const graph::Graph model =
        model::build_model(opened.config.model, opened.config.data, train::sample_spec(split.data),
                           opened.config.seed);
    engine::Replicas engine(model, opened.config, engine::open_backends(opened.config),
                            engine::Engine::Use::kEvaluate);
    engine.load(opened.file, opened.path);
    begin(opened, split, engine.outputs());
    engine::EvaluateOptions options = engine::evaluate_options(opened.config);
    scores_.push_back({.outputs = engine.outputs(), .logits = {}, .labels = {}});
    options.each_batch = [&](const data::Batch& batch, std::span<const float> logits) {
      add_batch(split.dataset(), batch, logits, fold, options.loss);
    };
    const engine::Metrics metrics = *engine::evaluate(engine, split.dataset(), options);
    loss_sum_ += metrics.loss * static_cast<double>(metrics.count);
    return {fold, opened.step, metrics};
  }

  const std::vector<std::string>& classes() const { return classes_; }

  // Returns the scores by fold; none if the outputs are not the probabilities of classes, or too
  // many for the limit of an AUC.
  std::vector<engine::LabelledLogits> class_scores() const {
    std::size_t count = 0;
    for (const engine::LabelledLogits& fold : scores_) count += fold.logits.size();
    if (!is_of_classes_ || count > static_cast<std::size_t>(max_scores_)) return {};
    return scores_;
  }

  engine::Metrics metrics() const {
    engine::Metrics all = all_->result();
    all.loss = loss_sum_ / static_cast<double>(all.count);
    return all;
  }

  std::string csv() const {
    std::string header = "file,fold,label,class,probability";
    for (const std::string& name : classes_) header += ',' + csv_cell("p_" + name);
    return header + '\n' + rows_;
  }

 private:
  // Starts the sums with the first fold; the others have the same classes (open_split()).
  void begin(const OpenedModel& opened, const OpenedSplit& split, std::int64_t outputs) {
    if (all_) return;
    classes_ = split.data.classes;
    const engine::EvaluateOptions options = engine::evaluate_options(opened.config);
    has_classes_ = engine::has_classes(split.dataset(), options.loss);
    is_of_classes_ =
        has_classes_ && engine::why_no_class_probabilities(options.loss, outputs).empty();
    max_scores_ = options.max_scores;
    all_.emplace(options.loss, outputs, options.top_k, has_classes_, options.max_scores);
  }

  void add_batch(const data::Dataset& dataset, const data::Batch& batch,
                 std::span<const float> logits, std::int64_t fold, LossKind loss) {
    const std::vector<std::int32_t> labels = engine::label_indices(dataset, batch);
    const std::vector<float> losses(labels.size());  // metrics() has the sum of the folds
    all_->add(logits, losses, labels);
    if (is_of_classes_) {
      engine::LabelledLogits& scores = scores_.back();
      scores.logits.insert(scores.logits.end(), logits.begin(), logits.end());
      scores.labels.insert(scores.labels.end(), labels.begin(), labels.end());
    }
    const std::size_t width = logits.size() / labels.size();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::span<const float> output = logits.subspan(i * width, width);
      const std::vector<double> probabilities = compute_probabilities(output, loss);
      const std::size_t predicted = engine::predicted_class(output, loss);
      rows_ += concat(csv_cell(dataset.describe(batch.indices[i])), ',', fold, ',',
                      has_classes_ ? class_name(labels[i]) : "", ',', class_name(predicted), ',',
                      csv_number(probabilities[predicted]));
      for (const double p : probabilities) rows_ += ',' + csv_number(p);
      rows_ += '\n';
    }
  }

  std::string class_name(std::size_t index) const {
    return index < classes_.size() ? csv_cell(classes_[index]) : std::to_string(index);
  }

  std::vector<std::string> classes_;
  bool has_classes_ = false;
  bool is_of_classes_ = false;  // the outputs are the probabilities of classes
  std::int64_t max_scores_ = 0;
  std::vector<engine::LabelledLogits> scores_;  // by fold
  std::optional<engine::MetricsAccumulator> all_;
  double loss_sum_ = 0;
  std::string rows_;
};

std::vector<FoldMetric> make_metrics(const std::vector<FoldResult>& folds,
                                     const engine::Metrics& all, const FoldDecisions& decisions) {
  std::vector<FoldMetric> metrics;
  for (const auto& [name, value] : engine::named_metrics(all)) {
    FoldMetric metric{std::string(name), {}, {}, value, {}};
    if (name == "accuracy" && std::isfinite(value)) metric.all_interval = all.accuracy_interval;
    if (name == "auc" && decisions.auc) metric.all_interval = decisions.auc->interval;
    std::vector<double> known;
    for (const FoldResult& fold : folds) {
      double found = std::numeric_limits<double>::quiet_NaN();
      for (const auto& [other, number] : engine::named_metrics(fold.metrics)) {
        if (other == name) found = number;
      }
      metric.values.push_back(found);
      if (std::isfinite(found)) known.push_back(found);
    }
    if (known.empty()) continue;
    metric.estimate = estimate(known);
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

// Throws ConfigError if the training images have several labels, or the options do not fit them.
void check_data(const config::Config& config, const DecisionOptions& decisions) {
  const bool has_decisions =
      !decisions.operating_point.empty() || !decisions.positive_class.empty();
  if (!config.data.csv.may_have_several_labels() && !has_decisions) return;
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  check_fold_options(decisions, config.model.loss, data.classes);
  if (!data.dataset(Split::kTrain)->spec().is_multi_label()) return;
  throw ConfigError({},
                    "crossval is for one class per image, and these images have several labels; "
                    "train the folds one by one with `train --fold K`");
}

// Returns "0.9123 (0.9011 to 0.9213)", or the value alone where there is no interval.
std::string all_text(const FoldMetric& metric) {
  if (!metric.all) return "-";
  const auto& interval = metric.all_interval;
  if (!interval || !std::isfinite(interval->low)) return fixed(*metric.all, 4);
  return concat(fixed(*metric.all, 4), " (", fixed(interval->low, 4), " to ",
                fixed(interval->high, 4), ")");
}

Json make_json(const CrossvalResult& result) {
  Json json{{"event", "crossval"},
            {"name", result.name},
            {"checkpoint", to_string(result.checkpoint)},
            {"count", result.all.count}};
  json["metrics"] = Json::object();
  for (const FoldMetric& metric : result.metrics) {
    // Values that are not finite become null; see to_json_line().
    json["metrics"][metric.name] = {{"mean", metric.estimate.mean},
                                    {"low", metric.estimate.low},
                                    {"high", metric.estimate.high},
                                    {"all", metric.all ? Json(*metric.all) : Json(nullptr)},
                                    {"folds", metric.values}};
    if (const auto& interval = metric.all_interval) {
      json["metrics"][metric.name]["all_low"] = interval->low;
      json["metrics"][metric.name]["all_high"] = interval->high;
    }
  }
  json["folds"] = Json::array();
  for (const FoldResult& fold : result.folds) {
    json["folds"].push_back(
        {{"fold", fold.fold}, {"step", fold.step}, {"count", fold.metrics.count}});
  }
  json["classes"] = result.classes;
  hooks::add_confusion(json, result.all.confusion);
  add_fold_decisions(json, result.decisions);
  return json;
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
  if (const auto scores = predictions.class_scores(); !scores.empty()) {
    result.decisions = decide_by_folds(scores, result.classes, decisions, warn);
  } else if (!decisions.operating_point.empty()) {
    warn("there is no operating point: there are too many predictions to keep");
  }
  result.metrics = make_metrics(result.folds, result.all, result.decisions);
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
    const auto& [mean, low, high] = metric.estimate;
    std::vector<std::string> row{metric.name, fixed(mean, 4),
                                 concat(fixed(low, 4), " to ", fixed(high, 4)), all_text(metric)};
    for (std::size_t i = 0; lists_folds && i < metric.values.size(); ++i) {
      row.push_back(std::isfinite(metric.values[i]) ? fixed(metric.values[i], 4) : "-");
    }
    table.add(std::move(row));
  }
  table.print(out);
  print_fold_decisions(result.decisions, brief, out);
  out << (brief ? "" : "\n") << grouped(result.all.count) << " samples in " << result.folds.size()
      << " folds, each predicted by the run that has not trained on it: "
      << (folder / "out_of_fold.csv").string() << "\nreport: " << (folder / "report.html").string()
      << '\n';
}

std::string crossval_json(const CrossvalResult& result) { return to_json_line(make_json(result)); }

}  // namespace trainer::commands
