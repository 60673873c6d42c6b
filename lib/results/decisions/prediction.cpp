#include "results/decisions/prediction.h"

#include <algorithm>
#include <cmath>

#include "base/numbers/statistics.h"
#include "engine/metrics/binary_scores.h"
#include "results/field.h"

namespace trainer::results {
namespace {

std::int32_t predict_class(std::span<const float> logits, std::span<const double> probabilities,
                           const PredictOptions& options) {
  if (options.costs) return engine::find_least_cost_class(probabilities, *options.costs);
  if (!options.threshold) return engine::predicted_class(logits, options.loss);
  const auto positive = static_cast<std::int32_t>(options.threshold->positive_class);
  const double odds = engine::LogOdds(logits)(static_cast<std::size_t>(positive));
  return odds >= options.threshold->log_odds ? positive : 1 - positive;
}

}  // namespace

std::vector<double> compute_probabilities(std::span<const float> logits, LossKind loss) {
  std::vector<double> p(logits.begin(), logits.end());
  if (loss == LossKind::kMeanSquaredError) {
    // Its outputs estimate labels 0 and 1 as they are.
    if (p.size() == 1) p.insert(p.begin(), 1 - p[0]);
  } else if (loss == LossKind::kSoftmaxCrossEntropy) {
    const double largest = *std::ranges::max_element(p);
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - largest);
    for (double& x : p) x /= sum;
    if (p.size() == 1) p.push_back(0);  // the one class, and what is not it
  } else if (loss == LossKind::kBinaryCrossEntropy) {
    for (double& x : p) x = sigmoid(x);
    if (p.size() == 1) p.insert(p.begin(), 1 - p[0]);
  }
  return p;
}

Prediction make_prediction(const Output& output, const PredictOptions& options) {
  Prediction prediction{output};
  for (const float x : output.logits) {
    prediction.scaled_logits.push_back(
        static_cast<float>(static_cast<double>(x) / options.temperature));
  }
  prediction.probabilities = compute_probabilities(prediction.scaled_logits, options.loss);
  prediction.predicted = predict_class(output.logits, prediction.probabilities, options);
  return prediction;
}

static void fields(FieldVisitor& v, PredictionLine::Candidate& candidate) {
  v("class", candidate.name, "The class.");
  v("probability", candidate.probability, kShare, "Its probability.");
}

void fields(FieldVisitor& v, Novelty::Neighbour& neighbour) {
  v("image", neighbour.name, "The training image.");
  v.when_present("class", neighbour.label, "Its class.");
  v("distance", neighbour.distance, "Its cosine distance in features.");
}

void novelty_fields(FieldVisitor& v, const std::optional<Novelty>& novelty) {
  std::optional<bool> is_novel;
  std::optional<double> distance;
  std::vector<Novelty::Neighbour> nearest;
  if (novelty) {
    is_novel = novelty->is_novel;
    distance = novelty->distance;
    nearest = novelty->nearest;
  }
  v.when_present("novel", is_novel, "Whether the image shows none of the classes.");
  v.when_present("distance", distance, "Its distance to the training images.");
  v.when_present("nearest", nearest, "The nearest training images.");
}

void fields(FieldVisitor& v, PredictionLine& line) {
  v.when_present("file", line.file, "The image file, or the file of arrays.");
  v("index", line.index, "The number of the image, from 0.");
  v("class", line.predicted, "The predicted class; null if the model abstains.");
  v.newer("probability", line.probability, "The probability of the class.");
  v.when_present("abstained", line.abstained, "Whether the model abstains.");
  v.when_present("abstains_below", line.abstains_below,
                 "The confidence below which it abstains; null if it always does.");
  novelty_fields(v, line.novelty);
  v.when_present("label", line.label, "The true class, if it is known.");
  v.when_present("top", line.top, "The likeliest classes, with --top.");
  v.when_present("probabilities", line.probabilities, "The probabilities, by class.");
  v.when_present("logits", line.logits, "The logits, with --logits.");
  v.when_present("heatmap", line.heatmap, "The file of the heatmap.");
}

void fields(FieldVisitor& v, LabelLine& line) {
  v.when_present("file", line.file, "The image file, or the file of arrays.");
  v("index", line.index, "The number of the image, from 0.");
  v("labels", line.labels, "The predicted labels.");
  v("probabilities", line.probabilities, kShare, "The probabilities, by label.");
  novelty_fields(v, line.novelty);
  v.when_present("present", line.present, "The labels that the image is known to have.");
  v.when_present("absent", line.absent, "The labels that it is known not to have.");
  v.when_present("logits", line.logits, "The logits, with --logits.");
}

}  // namespace trainer::results
