// Scores by which the samples of one class are separated from those of all others.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/metrics/labelled_logits.h"

namespace trainer::engine {

struct BinaryScores {
  std::vector<double> scores;     // [samples]; a larger one is in favour of the class
  std::vector<bool> is_positive;  // [samples], true for samples of the class

  std::int64_t positives() const;
  std::int64_t negatives() const;
};

// Returns the scores of each class against the rest, in the order of the classes: the logarithm of
// the odds p / (1 - p) of its probability, which does not lose the order of probabilities close to
// 1, as these would by rounding.
std::vector<BinaryScores> one_against_rest(const LabelledLogits& scores);

// Returns the logarithm of the odds of one class of one sample.
double log_odds(std::span<const float> logits, std::int64_t of_class);

// The number of samples that have the same score.
struct ScoreGroup {
  double score = 0;
  std::int64_t positives = 0, negatives = 0;
};
// Returns a group for each distinct score, from the largest to the smallest. No score is NaN.
std::vector<ScoreGroup> group_by_score(const BinaryScores& scores);

}  // namespace trainer::engine
