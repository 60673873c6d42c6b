#include "inference/features.h"

#include <limits>

#include "base/formats/npy.h"
#include "model/features.h"
#include "model/model.h"

namespace trainer::inference {

FeatureEngine make_feature_engine(const Trained& trained,
                                  const std::vector<PredictionInput>& inputs,
                                  const std::string& layer) {
  const config::Config& config = trained.config;
  const model::FeatureModel model = model::cut_at_features(
      model::build_model(config.model, config.data, sample_spec(trained, inputs), config.seed),
      layer);
  FeatureEngine features;
  features.layer = model.layer;
  features.shape = model.shape;
  features.engine = std::make_unique<engine::Replicas>(
      model.graph, config, engine::open_backends(config), engine::Engine::Use::kPredict);
  features.engine->load(trained.file, trained.path);
  return features;
}

std::int64_t write_features(FeatureEngine& features, const std::vector<PredictionInput>& inputs,
                            std::optional<std::int64_t> limit, const Path& path,
                            const std::function<void(const std::string& reason)>& skipped) {
  std::vector<float> rows;
  std::int64_t images = 0;
  const auto width = static_cast<std::size_t>(features.shape.elements());
  // Features have no loss: they are what the engine gives.
  const PredictOptions options{config::LossKind::kMeanSquaredError, limit};
  for (const PredictionInput& input : inputs) {
    predict(*features.engine, input, options, [&](const Prediction& prediction) {
      ++images;
      if (prediction.error.empty()) {
        rows.insert(rows.end(), prediction.logits.begin(), prediction.logits.end());
      } else {
        rows.resize(rows.size() + width, std::numeric_limits<float>::quiet_NaN());
        skipped(prediction.error);
      }
    });
  }
  std::vector<std::int64_t> dims = features.shape.dims();
  dims[0] = images;
  const std::string header = npy_header("<f4", dims);
  write_file_atomic(
      path,
      Pieces{{reinterpret_cast<const std::uint8_t*>(header.data()), header.size()},
             {reinterpret_cast<const std::uint8_t*>(rows.data()), rows.size() * sizeof(float)}});
  return images;
}

}  // namespace trainer::inference
