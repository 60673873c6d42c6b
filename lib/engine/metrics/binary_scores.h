// Scores by which the samples of one class are separated from those of all others.
#pragma once

#include <cstdint>
#include <functional>
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

// Computes the logarithm of the odds of each class of one sample from its logits, of which a single
// one stands for two classes. The result is finite and keeps the order of samples at any distance
// between finite logits.
class LogOdds {
 public:
  // The memory of `logits` must outlive the object.
  explicit LogOdds(std::span<const float> logits);
  double operator()(std::size_t of_class) const;

 private:
  double logit(std::size_t i) const { return static_cast<double>(logits_[i]); }

  std::span<const float> logits_;
  std::size_t top_ = 0, second_ = 0;  // the classes of the largest logits
  // Sums of exp(logit - that of the second class) and exp(logit - that of the top class) over the
  // classes without the top one.
  double above_second_ = 0, above_top_ = 0;
};

// Returns the middle between two scores, or `upper` where rounding makes the middle equal to
// `lower`: the result is above `lower` and at most `upper`.
double threshold_between(double lower, double upper);

// The number of samples that have the same score.
struct ScoreGroup {
  double score = 0;
  std::int64_t positives = 0, negatives = 0;
};
// Calls use(group) for each distinct score, from the largest to the smallest. No score is NaN.
void each_score_group(const BinaryScores& scores,
                      const std::function<void(const ScoreGroup&)>& use);
// Returns these groups.
std::vector<ScoreGroup> group_by_score(const BinaryScores& scores);

// Returns the area under the ROC curve: the chance that a positive sample has a larger score than a
// negative one, where equal scores count half. NaN without positive or negative samples.
double area_under_roc(const BinaryScores& scores);

}  // namespace trainer::engine
