#include "commands/compare/predict_run.h"

#include <chrono>

#include "base/error.h"
#include "inference/predict/predict.h"

namespace trainer::commands {
namespace {

RunPredictions predict_split(const inference::OpenedModel& opened, double seconds) {
  if (opened.classes.empty()) return {std::nullopt, "its model has no classes"};
  const auto inputs = inference::open_prediction_inputs(opened, {}, {}, false, opened.warn);
  const inference::PredictionInput& input = inputs.front();
  if (!input.dataset().spec().label_is_index()) {
    return {std::nullopt, "its images do not have one class each"};
  }
  const auto engine = inference::make_engine(opened, inputs);
  const auto name = [&](std::int64_t index) { return opened.classes.at(index); };
  Predictions predictions;
  std::int64_t seen = 0;
  const auto each = [&](const results::Prediction& prediction) {
    ++seen;
    if (!prediction.error.empty() || !prediction.label) return;
    const std::string file = input.one_per_file ? input.name_of(prediction.index) : "";
    predictions[{file, prediction.index}] = {name(prediction.predicted), name(*prediction.label)};
  };
  const auto start = std::chrono::steady_clock::now();
  inference::predict(*engine, input, {opened.config.model.loss}, each, [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return passed.count() >= seconds;
  });
  if (seen < input.dataset().size()) {
    return {std::nullopt,
            concat("its ", input.dataset().size(), " images took longer than --seconds ", seconds)};
  }
  return {std::move(predictions), ""};
}

}  // namespace

RunPredictions predict_run(const Path& run, results::ScoredCheckpoint checkpoint, double seconds,
                           const config::Environment& environment,
                           const std::function<void(const Notice&)>& warn) {
  const bool is_last = checkpoint == results::ScoredCheckpoint::kLast;
  if (!is_last) {
    if (std::optional<Predictions> stored = read_predictions(run)) return {std::move(stored), ""};
  }
  try {
    return predict_split(inference::open_trained(run.string(),
                                                 is_last ? results::CheckpointChoice::kLast
                                                         : results::CheckpointChoice::kDefault,
                                                 {}, environment, warn),
                         seconds);
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace trainer::commands
