// How classes are decided for a purpose: the threshold at which a sample is called positive, chosen
// for a sensitivity, a specificity or the costs of errors, and the class with the least expected
// cost among several.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/metrics/binary_scores.h"
#include "engine/metrics/metrics.h"

namespace trainer::engine {

struct OperatingCriterion {
  enum class Kind { kSensitivity, kSpecificity, kCost };
  Kind kind = Kind::kSensitivity;
  double share = 0;  // the least sensitivity or specificity, in (0, 1]
  double false_positive_cost = 0, false_negative_cost = 0;  // positive numbers
};
// Reads "sensitivity=0.95", "specificity=0.9" or "cost=FP:FN". Returns nothing for another text.
std::optional<OperatingCriterion> parse_operating_criterion(std::string_view text);
// Returns a text that parse_operating_criterion() reads.
std::string to_string(const OperatingCriterion& criterion);

// Samples by their label and by what they are called.
struct OperatingCounts {
  std::int64_t true_positives = 0, false_negatives = 0;
  std::int64_t true_negatives = 0, false_positives = 0;

  std::int64_t positives() const { return true_positives + false_negatives; }
  std::int64_t negatives() const { return true_negatives + false_positives; }
  double sensitivity() const;             // 0 without positive samples
  double specificity() const;             // 0 without negative samples
  Interval sensitivity_interval() const;  // Wilson's, of 95 %
  Interval specificity_interval() const;
};
// Returns the mean cost of the samples by the costs of the criterion; 0 without samples.
double mean_cost(const OperatingCriterion& criterion, const OperatingCounts& counts);
// Counts samples of which those with a score of at least `threshold` are called positive.
OperatingCounts count_at_threshold(const BinaryScores& scores, double threshold);

// Returns the threshold that gives at least the sensitivity with the largest specificity, at least
// the specificity with the largest sensitivity, or the least cost FP * false positives + FN * false
// negatives. Of several such thresholds, it is the largest. It lies in the middle between two
// scores; if all samples are called positive, it is the lowest score, and if none is, it is
// infinite. There must be positive and negative samples.
double find_operating_threshold(const BinaryScores& scores, const OperatingCriterion& criterion);

// What it costs to decide for a class, by the true class: numbers that are finite and not negative.
struct CostMatrix {
  std::size_t classes = 0;
  std::vector<double> costs;  // [classes, classes], a row per true class

  double at(std::size_t actual, std::size_t decided) const {
    return costs[actual * classes + decided];
  }
};
// Returns the class whose expected cost, the sum over the true classes of probability times cost,
// is the least; the first of equal ones. There is a probability for each class.
std::int32_t find_least_cost_class(std::span<const double> probabilities, const CostMatrix& costs);

}  // namespace trainer::engine
