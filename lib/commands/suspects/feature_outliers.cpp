#include "commands/suspects/feature_outliers.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/error.h"
#include "commands/suspects/outliers.h"
#include "data/samples/splits.h"
#include "inference/open_model/run_archive.h"
#include "inference/predict/features.h"
#include "model/build_model.h"
#include "model/features.h"

namespace trainer::commands {
namespace {

bool has_features(const inference::OpenedModel& opened,
                  const std::vector<inference::PredictionInput>& inputs) {
  try {
    model::cut_at_features(
        model::build_model(opened.config.model, opened.config.data,
                           inference::sample_spec(opened, inputs), opened.config.seed),
        "");
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// Images that a run judges, as the run reads them.
struct RunImages {
  std::vector<std::size_t> images;                // of LabelledImages
  std::vector<inference::PredictionInput> input;  // one, with these images in the same order
};

// Opens all images from which those that a run judges are taken. Throws DataError.
inference::PredictionInput open_candidates(const inference::OpenedModel& opened, bool is_crossval,
                                           const std::function<void(const Notice&)>& warn) {
  if (!is_crossval) {
    return std::move(
        inference::open_prediction_inputs(opened, {}, Split::kValidation, false, warn).front());
  }
  inference::PredictionInput input;
  input.name = opened.path;
  input.images.dataset = inference::open_undivided_training_data(opened).train;
  input.images.labelled = true;
  return input;
}

// Returns the candidates that are among `judged`. The data may have changed since, so that they are
// found by name.
RunImages take_judged(inference::PredictionInput candidates, const LabelledImages& images,
                      Split split, std::set<std::size_t> judged) {
  RunImages result;
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < candidates.dataset().size(); ++i) {
    for (const std::size_t image : images.find(candidates.dataset().describe(i), split)) {
      if (judged.erase(image) == 0) continue;
      result.images.push_back(image);
      indices.push_back(i);
      break;
    }
  }
  candidates.images.dataset =
      data::take_samples(std::move(candidates.images.dataset), std::move(indices));
  result.input.push_back(std::move(candidates));
  return result;
}

struct Features {
  std::vector<float> values;  // a row per image
  std::size_t width = 0;
};

Features compute_features(const inference::OpenedModel& opened,
                          const std::vector<inference::PredictionInput>& input) {
  inference::FeatureEngine engine = inference::make_feature_engine(opened, input, "");
  Features features;
  features.width = static_cast<std::size_t>(engine.engine->replica().outputs());
  inference::for_each_output(*engine.engine, input.front(), {}, [&](const results::Output& output) {
    features.values.insert(features.values.end(), output.logits.begin(), output.logits.end());
  });
  return features;
}

void add_outliers(const std::vector<std::size_t>& images, const Features& features,
                  std::vector<FeatureOutlier>& outliers) {
  constexpr double kDistanceRounding = 1e-6;  // of distances of floats
  const std::vector<double> distances = find_neighbour_distances(features.values, features.width);
  const double limit = std::max(find_outlier_limit(distances), kDistanceRounding);
  for (std::size_t i = 0; i < distances.size(); ++i) {
    if (distances[i] > limit) outliers.push_back({images[i], distances[i] / limit});
  }
}

// Reports that the training data of a run of crossval has changed. Throws DataError for arrays, in
// which another image may have the number of one that was judged.
void report_change(const inference::OpenedModel& opened,
                   const std::function<void(const Notice&)>& warn) {
  if (!config::is_image_format(opened.config.data.format)) {
    throw DataError(opened.path,
                    "the arrays of the training data are not what they were when the run was "
                    "trained, and images of arrays are known by their numbers alone: its "
                    "predictions may be those of other images. Restore the data, or train the "
                    "folds again with `trainer crossval`");
  }
  warn(concat(opened.path,
              ": the training data is not what it was when the run was trained; images are found "
              "by their names, and a file that was replaced is judged by what it was"));
}

}  // namespace

std::vector<FeatureOutlier> find_feature_outliers(const LabelledImages& images,
                                                  const JudgingRuns& runs,
                                                  const JudgedImages& judged,
                                                  const config::Environment& environment,
                                                  const std::function<void(const Notice&)>& warn) {
  std::vector<FeatureOutlier> outliers;
  // judge_images() opens a single run, too, and reports the same.
  const auto tell = [&](const Notice& notice) {
    if (runs.is_crossval) warn(notice);
  };
  const Split split = runs.is_crossval ? Split::kTrain : Split::kValidation;
  bool has_changed = false;
  for (std::size_t run = 0; run < runs.runs.size(); ++run) {
    const inference::OpenedModel opened =
        inference::open_trained(runs.runs[run].string(), runs.checkpoint, {}, environment, tell);
    inference::PredictionInput candidates = open_candidates(opened, runs.is_crossval, tell);
    if (runs.is_crossval && !inference::is_same_training_data(opened, candidates.dataset())) {
      if (!has_changed) report_change(opened, warn);
      has_changed = true;
    }
    std::set<std::size_t> of_run;
    for (std::size_t i = 0; i < judged.images.size(); ++i) {
      if (judged.runs[i] == run) of_run.insert(judged.images[i]);
    }
    const RunImages taken = take_judged(std::move(candidates), images, split, std::move(of_run));
    if (taken.images.empty()) continue;
    if (!has_features(opened, taken.input)) {
      warn(
          Notice::note("no outliers are looked for: the model has no layer before its last one "
                       "with weights, whose output could be compared"));
      return {};
    }
    add_outliers(taken.images, compute_features(opened, taken.input), outliers);
  }
  std::ranges::stable_sort(outliers, std::greater<>(), &FeatureOutlier::ratio);
  return outliers;
}

}  // namespace trainer::commands
