// `trainer predict --abstain`: leaves the samples without a class whose probability is too small.
#pragma once

#include <functional>
#include <string>

#include "commands/predict/predict.h"
#include "engine/metrics/abstention.h"

namespace trainer::commands {

struct Abstention {
  double error = 0;                      // the share of wrong predictions that is allowed
  double confidence = 0;                 // the model abstains below it; above 1 if it always does
  std::int64_t samples = 0;              // of the validation split
  std::int64_t answered = 0, wrong = 0;  // of these

  // Returns a note on the confidence and what it gives on the validation split.
  std::string text() const;
};

// Predicts the validation split of the model's data, and finds the confidence that answers most of
// its samples with at most this share of wrong ones. The confidence is the probability of the
// predicted class. Throws ConfigError for a model whose outputs are not the probabilities of
// classes that exclude each other, and without a validation split.
Abstention find_abstention(const OpenedModel& opened, engine::Replicas& engine,
                           const PredictOptions& options, double error,
                           const std::function<void(const std::string&)>& warn);

// Counts the predictions of an abstaining model.
class Coverage {
 public:
  // Sets prediction.abstained.
  void decide(const Abstention& abstention, Prediction& prediction);
  // Returns a note with the share of answered samples and, where labels are known, their error.
  std::string text() const;

 private:
  std::int64_t samples_ = 0, answered_ = 0, labelled_ = 0, wrong_ = 0;
};

}  // namespace trainer::commands
