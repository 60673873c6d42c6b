// Leaves the samples without a class whose probability is too small: `trainer predict --abstain`
// and `trainer evaluate --abstain`.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/metrics/abstention.h"
#include "engine/metrics/metrics.h"
#include "results/decisions/prediction.h"

namespace trainer::results {

// Counts of samples that get a class or none.
struct Answers {
  std::int64_t samples = 0;
  std::int64_t answered = 0;  // samples that are given a class
  std::int64_t labelled = 0;  // answered samples whose label is known
  std::int64_t wrong = 0;     // labelled samples that got another class than their label

  double coverage() const;                  // the share of the samples that have a class
  double error() const;                     // the share of the labelled samples that are wrong
  engine::Interval error_interval() const;  // Wilson's, of 95 %
};

struct Abstention {
  double error = 0;       // the share of wrong predictions that is allowed
  double confidence = 0;  // the model abstains below it; above 1 if it always does
  Answers answers;        // the answers on the validation split

  bool is_always() const { return answers.answered == 0; }
  // Returns a note on the confidence and what it gives on the validation split.
  std::string text() const;
};

// Returns the confidence that answers most of the predictions for the validation split with at most
// this share of wrong ones.
Abstention find_abstention(std::span<const engine::TopPrediction> predictions, double error);

// Returns the confidence of a prediction for a labelled sample.
engine::TopPrediction to_top_prediction(const Prediction& prediction);

// Counts the predictions of an abstaining model.
class Coverage {
 public:
  // Sets prediction.abstained.
  void decide(const Abstention& abstention, Prediction& prediction);
  // Returns a note with the share of answered samples and, where labels are known, their error.
  std::string text() const;

  const Answers& answers() const { return answers_; }

 private:
  Answers answers_;
};

}  // namespace trainer::results
