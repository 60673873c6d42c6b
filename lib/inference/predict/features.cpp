#include "inference/predict/features.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/formats/npy.h"
#include "model/build_model.h"
#include "model/features.h"

namespace trainer::inference {
namespace {

template <class T>
std::span<const std::uint8_t> view_bytes(std::span<const T> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

FeatureEngine make_engine(const model::FeatureModel& model, const OpenedModel& opened) {
  // In float32, so that features are exact and have the type of the logits that they may follow.
  config::Config config = opened.config;
  if (config.train.precision != config::Precision::kTf32) {
    config.train.precision = config::Precision::kFloat32;
  }
  FeatureEngine features;
  features.layer = model.layer;
  features.shape = model.shape;
  features.engine = std::make_unique<engine::Engine>(
      model.graph, config, engine::open_backends(config, opened.platform), engine::Use::kPredict);
  features.engine->load(opened.file, opened.path);
  return features;
}

}  // namespace

FeatureEngine make_feature_engine(const OpenedModel& opened,
                                  const std::vector<PredictionInput>& inputs,
                                  const std::string& layer) {
  return make_engine(
      model::cut_at_features(model::build_model(opened.config, sample_spec(opened, inputs)), layer),
      opened);
}

FeatureEngine make_scoring_engine(const OpenedModel& opened,
                                  const std::vector<PredictionInput>& inputs) {
  return make_engine(
      model::append_features(model::build_model(opened.config, sample_spec(opened, inputs))),
      opened);
}

std::int64_t write_features(FeatureEngine& features, const std::vector<PredictionInput>& inputs,
                            std::optional<std::int64_t> limit, const Path& path,
                            const std::function<void(const std::string& reason)>& skipped) {
  std::vector<std::int64_t> dims = features.shape.dims();
  dims[0] = 0;
  for (const PredictionInput& input : inputs) {
    const std::int64_t size = input.dataset().size();
    dims[0] += std::min(size, limit.value_or(size));
  }
  AtomicFileWriter file(path);
  const std::string header = npy_header("<f4", dims);
  file.write(view_bytes(std::span<const char>(header)));
  const std::vector<float> unreadable(features.shape.elements(),
                                      std::numeric_limits<float>::quiet_NaN());
  results::PredictOptions options;
  options.limit = limit;
  for (const PredictionInput& input : inputs) {
    for_each_output(*features.engine, input, options, [&](const results::Output& output) {
      if (output.error.empty()) return file.write(view_bytes(output.logits));
      file.write(view_bytes(std::span<const float>(unreadable)));
      skipped(output.error);
    });
  }
  file.commit();
  return dims[0];
}

}  // namespace trainer::inference
