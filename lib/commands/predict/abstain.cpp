#include "commands/predict/abstain.h"

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "data/samples/splits.h"
#include "engine/metrics/labelled_logits.h"

namespace trainer::commands {
namespace {

std::vector<PredictionInput> open_validation(const OpenedModel& opened,
                                             const std::function<void(const std::string&)>& warn) {
  try {
    return open_prediction_inputs(opened, {}, Split::kValidation, false, warn);
  } catch (const data::MissingSplit&) {
    throw ConfigError({}, concat("--abstain finds the confidence on the validation split, and the "
                                 "data of ",
                                 printable(opened.path),
                                 " has none; name one with --set data.validation.path=PLACE"));
  }
}

double find_confidence(const Prediction& prediction) {
  return prediction.probabilities[prediction.predicted];
}

}  // namespace

double Answers::coverage() const { return share(answered, samples); }
double Answers::error() const { return share(wrong, labelled); }
engine::Interval Answers::error_interval() const { return engine::wilson(wrong, labelled); }

std::string Abstention::text() const {
  if (is_always()) {
    return concat("--abstain ", error, ": no confidence gives so small an error on the ",
                  answers.samples, " validation samples, so that the model always abstains");
  }
  return concat("--abstain ", error, ": predicts from a confidence of ", fixed(confidence, 4),
                " on, which answers ", percent(answers.coverage()), " of the ", answers.samples,
                " validation samples with an error of ", percent(answers.error()));
}

engine::TopPrediction to_top_prediction(const Prediction& prediction) {
  return {find_confidence(prediction), *prediction.label == prediction.predicted};
}

Abstention find_abstention(std::span<const engine::TopPrediction> predictions, double error) {
  Abstention abstention;
  abstention.error = error;
  abstention.answers.samples = static_cast<std::int64_t>(predictions.size());
  const auto point = engine::find_abstention_point(predictions, error);
  abstention.confidence = point ? point->confidence : 2;  // no probability reaches it
  if (point) {
    abstention.answers.answered = abstention.answers.labelled = point->answered;
    abstention.answers.wrong = point->wrong;
  }
  return abstention;
}

Abstention find_abstention(const OpenedModel& opened, engine::Replicas& engine,
                           const PredictOptions& options, double error,
                           const std::function<void(const std::string&)>& warn) {
  const std::string reason =
      engine::why_no_class_probabilities(opened.config.model.loss, engine.outputs());
  if (!reason.empty()) {
    throw ConfigError({}, concat("--abstain needs a model that gives each image one class, but of ",
                                 printable(opened.path), ' ', reason));
  }
  PredictOptions whole = options;
  whole.limit.reset();
  std::vector<engine::TopPrediction> predictions;
  for (const PredictionInput& input : open_validation(opened, warn)) {
    predict(engine, input, whole, [&](const Prediction& prediction) {
      if (!prediction.error.empty() || !prediction.label) return;
      predictions.push_back(to_top_prediction(prediction));
    });
  }
  return find_abstention(predictions, error);
}

void Coverage::decide(const Abstention& abstention, Prediction& prediction) {
  prediction.abstained = !(find_confidence(prediction) >= abstention.confidence);
  ++answers_.samples;
  if (prediction.abstained) return;
  ++answers_.answered;
  if (!prediction.label) return;
  ++answers_.labelled;
  answers_.wrong += *prediction.label == prediction.predicted ? 0 : 1;
}

std::string Coverage::text() const {
  const std::string error =
      answers_.labelled == 0 ? "" : concat(", with an error of ", percent(answers_.error()));
  return concat("coverage ", percent(answers_.coverage()), " (", answers_.answered, " of ",
                answers_.samples, " images have a class", error, ")");
}

}  // namespace trainer::commands
