// Evaluates a model exactly: on every sample of a split once.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/process/progress.h"
#include "data/samples/features.h"
#include "engine/engine.h"
#include "engine/metrics/metrics.h"

namespace trainer::engine {

struct EvaluateOptions {
  LossKind loss = LossKind::kSoftmaxCrossEntropy;
  std::int64_t top_k = 0;
  std::int64_t max_scores = kMaxScores;  // see RocAuc
  std::vector<double> thresholds = {};   // see MultiLabelAccumulator
  // Takes the mean of the probabilities and losses of an image and its mirror image. Needs images:
  // with features evaluate() throws std::logic_error.
  bool flip = false;
  // If set, called with the sample indices and the logits of each batch.
  std::function<void(const data::Batch&, std::span<const float> logits)> each_batch;
  // The processes that evaluate together, each a part of every batch; all get the same metrics.
  // Null: this process alone.
  cluster::Communicator* workers = nullptr;
  // True if rank 0 evaluates alone and sends the metrics to the other workers, which call
  // evaluate() too.
  bool alone = false;
  // If set, called between batches; true cancels the evaluation.
  std::function<bool()> cancelled;
  Progress progress = {};  // advances with the samples that are read
};

// Returns the options of a config: its loss, top k, and the scores that an AUC of it needs.
EvaluateOptions evaluate_options(const config::Config& config);

// Evaluates all samples; nullopt when cancelled. As in Keras's evaluate(sample_weight=...), the
// loss is the sum of weight times loss divided by the number of samples, and no other metric is
// weighted. A DataError of one process cancels the evaluation of the other processes. `features`,
// if not null, replaces the images once it is complete, and is filled otherwise.
std::optional<Metrics> evaluate(Engine& engine, const data::Dataset& dataset,
                                const EvaluateOptions& options,
                                data::FeatureDataset* features = nullptr);

// Returns whether labels stand for classes, so that there is an accuracy: an index, a row with a
// single 1 and otherwise 0, or a single 0 or 1. Targets of mean_squared_error may be any numbers.
// Several labels of a sample are not classes.
bool has_classes(const data::Dataset& dataset, LossKind loss);

// Returns the class of each label of a batch: the index itself, or the position of the largest
// target.
std::vector<std::int32_t> label_indices(const data::Dataset& dataset, const data::Batch& batch);
// Converts a batch for the engine. `is_features` is true for a batch of a data::FeatureDataset.
HostBatch host_batch(const data::Batch& batch, bool is_features);

// Returns why the loss of a split is infinite or NaN: the sample that is not finite, or the model.
// Returns "" if the loss is finite.
std::string why_not_finite(const Metrics& metrics, const config::Data& config, Split split,
                           const data::Dataset& dataset);

}  // namespace trainer::engine
