#include "commands/suspects/feature_outliers.h"

#include <algorithm>

#include "base/error.h"
#include "commands/open_model/run_archive.h"
#include "commands/predict/features.h"
#include "commands/suspects/outliers.h"
#include "model/build_model.h"
#include "model/features.h"

namespace trainer::commands {
namespace {

bool has_features(const OpenedModel& opened, const std::vector<PredictionInput>& inputs) {
  try {
    model::cut_at_features(model::build_model(opened.config.model, opened.config.data,
                                              sample_spec(opened, inputs), opened.config.seed),
                           "");
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// The features of the samples of a split that are among the images of the config.
struct SplitFeatures {
  std::vector<std::size_t> images;
  std::vector<float> values;
  std::size_t width = 0;
};

// `split` is that of the samples in the config.
SplitFeatures compute_features(const LabelledImages& images, Split split, const OpenedModel& opened,
                               const std::vector<PredictionInput>& inputs) {
  FeatureEngine engine = make_feature_engine(opened, inputs, "");
  SplitFeatures features;
  features.width = static_cast<std::size_t>(engine.engine->outputs());
  for_each_output(*engine.engine, inputs.front(), {}, [&](const Output& output) {
    const std::vector<std::size_t> found =
        images.find(inputs.front().dataset().describe(output.index), split);
    if (found.empty()) return;
    features.images.push_back(found.front());
    features.values.insert(features.values.end(), output.logits.begin(), output.logits.end());
  });
  return features;
}

void add_outliers(const SplitFeatures& features, std::vector<FeatureOutlier>& outliers) {
  if (features.images.empty()) return;
  constexpr double kDistanceRounding = 1e-6;  // of distances of floats
  const std::vector<double> distances = find_neighbour_distances(features.values, features.width);
  const double limit = std::max(find_outlier_limit(distances), kDistanceRounding);
  for (std::size_t i = 0; i < distances.size(); ++i) {
    if (distances[i] > limit) outliers.push_back({features.images[i], distances[i] / limit});
  }
}

}  // namespace

std::vector<FeatureOutlier> find_feature_outliers(const LabelledImages& images,
                                                  const JudgingRuns& runs,
                                                  const config::Environment& environment,
                                                  const std::function<void(const Notice&)>& warn) {
  std::vector<FeatureOutlier> outliers;
  // judge_images() opens a single run, too, and reports the same.
  const auto tell = [&](const Notice& notice) {
    if (runs.is_crossval) warn(notice);
  };
  for (const Path& run : runs.runs) {
    const OpenedModel opened = open_trained(run.string(), runs.checkpoint, {}, environment, tell);
    std::vector<PredictionInput> inputs;
    try {
      inputs = open_prediction_inputs(opened, {}, Split::kValidation, false, tell);
    } catch (const DataError& error) {  // such as other training data than that of the run
      warn(concat("no outliers are looked for: ", error.what()));
      return {};
    }
    if (!has_features(opened, inputs)) {
      warn(
          Notice::note("no outliers are looked for: the model has no layer before its last one "
                       "with weights, whose output could be compared"));
      return {};
    }
    const Split split = runs.is_crossval ? Split::kTrain : Split::kValidation;
    add_outliers(compute_features(images, split, opened, inputs), outliers);
  }
  std::stable_sort(
      outliers.begin(), outliers.end(),
      [](const FeatureOutlier& a, const FeatureOutlier& b) { return a.ratio > b.ratio; });
  return outliers;
}

}  // namespace trainer::commands
