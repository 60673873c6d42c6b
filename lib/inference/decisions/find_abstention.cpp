#include "inference/decisions/find_abstention.h"

#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/samples/splits.h"

namespace trainer::inference {
namespace {

std::vector<PredictionInput> open_validation_inputs(
    const OpenedModel& opened, const std::function<void(const std::string&)>& warn) {
  try {
    return open_prediction_inputs(opened, {}, Split::kValidation, false, warn);
  } catch (const data::MissingSplit&) {
    throw ConfigError({}, concat("--abstain finds the confidence on the validation split, and the "
                                 "data of ",
                                 printable(opened.path),
                                 " has none; name one with --set data.validation.path=PLACE"));
  }
}

}  // namespace

results::Abstention find_abstention(const OpenedModel& opened, engine::Engine& engine,
                                    const results::PredictOptions& options, double error,
                                    const std::function<void(const std::string&)>& warn) {
  const std::string reason =
      engine::why_no_class_probabilities(opened.config.model.loss, engine.replica().outputs());
  if (!reason.empty()) {
    throw ConfigError({}, concat("--abstain needs a model that gives each image one class, but of ",
                                 printable(opened.path), ' ', reason));
  }
  results::PredictOptions whole = options;
  whole.limit.reset();
  std::vector<engine::TopPrediction> predictions;
  for (const PredictionInput& input : open_validation_inputs(opened, warn)) {
    predict(engine, input, whole, [&](const results::Prediction& prediction) {
      if (!prediction.error.empty() || !prediction.label) return;
      predictions.push_back(results::to_top_prediction(prediction));
    });
  }
  return results::find_abstention(predictions, error);
}

}  // namespace trainer::inference
