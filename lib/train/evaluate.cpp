#include "train/evaluate.h"

#include <algorithm>

namespace trainer::train {

std::vector<std::int32_t> label_indices(const data::Dataset& dataset, const data::Batch& batch) {
  const auto count = static_cast<std::size_t>(batch.range.count);
  std::vector<std::int32_t> indices(count);
  if (dataset.label_is_index()) {
    const auto* labels = static_cast<const std::int32_t*>(batch.labels);
    std::copy(labels, labels + count, indices.begin());
    return indices;
  }
  const auto width = static_cast<std::size_t>(dataset.label_width());
  for (std::size_t i = 0; i < count; ++i) {
    const float* row = static_cast<const float*>(batch.labels) + i * width;
    // One number is the label itself; several are one-hot or probabilities.
    indices[i] = width == 1 ? static_cast<std::int32_t>(row[0] > 0.5f)
                            : static_cast<std::int32_t>(std::max_element(row, row + width) - row);
  }
  return indices;
}

EvaluateOptions evaluate_options(const config::Config& config) {
  EvaluateOptions options;
  options.loss = static_cast<graph::LossKind>(config.model.loss);
  options.top_k = config.evaluate.top_k;
  return options;
}

std::optional<Metrics> evaluate(Replicas& engine, const data::Dataset& dataset,
                                const EvaluateOptions& options, data::FeatureDataset* features) {
  MetricsAccumulator metrics(options.loss, engine.outputs(), options.top_k);
  data::LoaderOptions loading;
  loading.batch_size = engine.evaluation_batch();
  loading.augment = false;
  loading.end_step = data::batches_per_epoch(dataset.size(), loading.batch_size);
  const bool ready = features != nullptr && features->complete();
  const auto loader = data::make_loader(ready ? *features : dataset, loading);
  while (const data::Batch* batch = loader->next()) {
    if (options.cancelled && options.cancelled()) return std::nullopt;
    const auto count = static_cast<std::size_t>(batch->range.count);
    const void* input = ready ? batch->images : engine.input_of(batch->range.count, batch->images);
    if (features != nullptr && !ready) features->store(*batch, input);
    engine.evaluate_on(batch->range.count, input, batch->labels);
    const auto logits = engine.logits().first(count * static_cast<std::size_t>(engine.outputs()));
    metrics.add(logits, engine.losses().first(count), label_indices(dataset, *batch));
    if (options.each_batch) options.each_batch(*batch, logits);
    loader->release();
  }
  return metrics.result();
}

}  // namespace trainer::train
