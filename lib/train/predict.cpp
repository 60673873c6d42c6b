#include "train/predict.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "train/evaluate.h"

namespace trainer::train {
namespace {

std::vector<double> probabilities_of(std::span<const float> logits, config::LossKind loss) {
  std::vector<double> p(logits.begin(), logits.end());
  if (loss == config::LossKind::kSoftmaxCrossEntropy) {
    const double largest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - largest);
    for (double& x : p) x /= sum;
  } else if (loss == config::LossKind::kBinaryCrossEntropy) {
    for (double& x : p) x = 1 / (1 + std::exp(-x));
    if (p.size() == 1) p.insert(p.begin(), 1 - p[0]);
  }
  return p;
}

std::int32_t predicted_class(std::span<const float> logits) {
  if (logits.size() == 1) return logits[0] > 0 ? 1 : 0;
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void check_shape(const Trained& trained, const PredictionInput& input) {
  const Shape shape = input.dataset->image_shape();
  if (!trained.image_shape || shape == *trained.image_shape) return;
  throw DataError(input.name,
                  concat("holds images of shape ", to_string(shape), ", but the model of ",
                         trained.path, " takes ", to_string(*trained.image_shape),
                         ". Arrays are [images, height, width, channels] or [images, "
                         "height, width]"));
}

}  // namespace

std::vector<PredictionInput> open_prediction_inputs(
    const Trained& trained, const std::vector<std::string>& files, const std::string& split,
    const std::function<void(const std::string&)>& warn) {
  std::vector<PredictionInput> inputs;
  if (files.empty()) {
    data::Datasets data = open_split(trained, split);
    auto& dataset = split == "train"        ? data.train
                    : split == "validation" ? data.validation
                                            : data.test;
    inputs.push_back({split, std::move(dataset), true});
  }
  for (const std::string& file : files) {
    data::Images images = data::open_images(file);
    inputs.push_back({file, std::move(images.dataset), images.labelled});
  }
  for (const PredictionInput& input : inputs) {
    check_shape(trained, input);
    const DType type = input.dataset->image_type();
    if (type != inputs[0].dataset->image_type()) {
      throw DataError(input.name, concat("holds ", to_string(type), " images, but ", inputs[0].name,
                                         " holds ", to_string(inputs[0].dataset->image_type()),
                                         "; predict them one after the other"));
    }
    if (trained.image_type && type != *trained.image_type) {
      warn(concat(input.name, ": holds ", to_string(type), " images, the model was trained on ",
                  to_string(*trained.image_type),
                  "; the numbers are taken as they are, so they must be in the same range"));
    }
  }
  return inputs;
}

model::SampleSpec sample_spec(const Trained& trained, const std::vector<PredictionInput>& inputs) {
  const data::Dataset& first = *inputs[0].dataset;
  return {first.image_shape(), first.image_type(), !inputs[0].labelled || first.label_is_index(),
          static_cast<std::int64_t>(trained.classes.size())};
}

void predict(Replicas& engine, const PredictionInput& input, config::LossKind loss,
             std::optional<std::int64_t> limit,
             const std::function<void(const Prediction&)>& each) {
  const std::int64_t count = std::min(input.dataset->size(), limit.value_or(input.dataset->size()));
  data::LoaderOptions loading;
  loading.augment = false;
  loading.batch_size = engine.evaluation_batch();
  loading.end_step = data::batches_per_epoch(count, loading.batch_size);
  const auto loader = data::make_loader(*input.dataset, loading);
  const auto outputs = static_cast<std::size_t>(engine.outputs());
  std::int64_t done = 0;
  while (const data::Batch* batch = loader->next()) {
    engine.evaluate(batch->range.count, batch->images, nullptr);
    const std::vector<std::int32_t> labels = label_indices(*input.dataset, *batch);
    for (std::size_t i = 0; i < labels.size() && done < count; ++i, ++done) {
      const auto logits = engine.logits().subspan(i * outputs, outputs);
      Prediction prediction{done, predicted_class(logits), probabilities_of(logits, loss), {}};
      if (input.labelled) prediction.label = labels[i];
      each(prediction);
    }
    loader->release();
  }
}

}  // namespace trainer::train
