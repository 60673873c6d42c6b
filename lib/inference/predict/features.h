// Features of images: what a layer before the end of the model gives for them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "engine/engine.h"
#include "inference/predict/predict.h"

namespace trainer::inference {

struct FeatureEngine {
  std::unique_ptr<engine::Engine> engine;
  std::string layer;
  Shape shape;  // the shape of its output, with the batch
};
// Makes the trained model up to `layer`, which is as in model::cut_at_features(), for these inputs.
FeatureEngine make_feature_engine(const OpenedModel& opened,
                                  const std::vector<PredictionInput>& inputs,
                                  const std::string& layer);

// Makes the trained model with the features of its default layer behind the logits of each row, for
// these inputs.
FeatureEngine make_scoring_engine(const OpenedModel& opened,
                                  const std::vector<PredictionInput>& inputs);

// Writes an NPY file of float32 [images, ...] with the layer's output for the first `limit` images
// of each input, in their order; NaN for an image that cannot be read, whose reason `skipped` gets.
// Returns the number of images. Rows are written as they come; the file appears when it is whole.
std::int64_t write_features(FeatureEngine& features, const std::vector<PredictionInput>& inputs,
                            std::optional<std::int64_t> limit, const Path& path,
                            const std::function<void(const std::string& reason)>& skipped);

}  // namespace trainer::inference
