#include "commands/crossval/out_of_fold.h"

#include <cmath>

#include "base/error.h"
#include "base/formats/csv.h"
#include "base/numbers/statistics.h"
#include "engine/engine.h"
#include "engine/evaluate.h"
#include "hooks/data_report.h"
#include "inference/predict/predict.h"
#include "model/build_model.h"
#include "results/evaluation/find_class.h"
#include "train/open.h"

namespace trainer::commands {

FoldResult OutOfFold::add_fold(const Path& run, std::int64_t fold,
                               results::CheckpointChoice checkpoint,
                               const inference::OpenOptions& opening) {
  const inference::OpenedModel opened = inference::open_trained(run.string(), checkpoint, opening);
  const inference::OpenedSplit split{Split::kValidation,
                                     inference::open_split(opened, Split::kValidation)};
  opening.warn(hooks::left_out(split.files(), split.split));
  const graph::Graph model = model::build_model(opened.config, train::sample_spec(split.data));
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

}  // namespace trainer::commands
