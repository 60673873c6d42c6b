#include "results/decisions/abstain.h"

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "engine/metrics/labelled_logits.h"

namespace trainer::results {
namespace {

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

}  // namespace trainer::results
