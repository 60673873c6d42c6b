// Exact evaluation: every sample of a split once.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "data/data.h"
#include "data/features.h"
#include "data/roles.h"
#include "engine/metrics.h"
#include "engine/replicas.h"

namespace trainer::engine {

struct EvaluateOptions {
  graph::LossKind loss = graph::LossKind::kSoftmaxCrossEntropy;
  std::int64_t top_k = 0;
  // Called with each batch's sample indices and the engine's logits, when set.
  std::function<void(const data::Batch&, std::span<const float> logits)> each_batch;
  // The processes that evaluate together, a part of every batch each; all get the same metrics.
  // Null: this one alone.
  cluster::Communicator* workers = nullptr;
  // Of the workers, rank 0 evaluates and tells the others, who make the same call.
  bool alone = false;
  // Asked between batches, when set; true ends the evaluation and gives nothing.
  std::function<bool()> cancelled;
};

// What the config says: its loss and top k.
EvaluateOptions evaluate_options(const config::Config& config);

// Nothing when it was cancelled. A DataError of one process cancels it for the others. `features`
// of the data set, when they are kept, stand for the images once all are there, and are completed
// otherwise.
std::optional<Metrics> evaluate(Replicas& engine, const data::Dataset& dataset,
                                const EvaluateOptions& options,
                                data::FeatureDataset* features = nullptr);

// Whether a sample's label stands for a class, so that there is an accuracy: an index, a row with
// one 1 and else 0, or a single 0 or 1. The targets of mean_squared_error may be any numbers.
bool has_classes(const data::Dataset& dataset, graph::LossKind loss);

// The class index of each label of a batch: indices as they are, the largest of float targets.
std::vector<std::int32_t> label_indices(const data::Dataset& dataset, const data::Batch& batch);
// The batch as the engine takes it; `is_features` when it is of a data::FeatureDataset.
HostBatch host_batch(const data::Batch& batch, bool is_features);

// Why the loss of a split is infinite or NaN: the sample that is not finite, or the model; "" when
// it is a number.
std::string why_not_finite(const Metrics& metrics, const config::Data& config, data::Role role,
                           const data::Dataset& dataset);

}  // namespace trainer::engine
