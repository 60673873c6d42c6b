// Finds the threshold of a label from the scores of samples.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "engine/metrics/operating_point.h"

namespace trainer::engine {

// What a threshold is to reach: the largest F1, or what find_operating_threshold() chooses.
struct ThresholdGoal {
  std::optional<OperatingCriterion> criterion = {};  // F1 if empty
};

// Returns "f1", "sensitivity=0.95", "specificity=0.9" or "cost=1:20", of false positives and false
// negatives.
std::string to_string(const ThresholdGoal& goal);
// Reads what to_string() writes; nullopt for other texts.
std::optional<ThresholdGoal> parse_threshold_goal(const std::string& text);

// Returns the threshold, above which a score predicts the label: half-way between two scores, 1
// below the smallest, or the largest score if no sample is to have the label. Of several that reach
// the goal, returns the largest. Both spans have one number per sample; targets are 1, 0 or NaN
// (unknown, left out). Returns nullopt without a known sample that has the label, and for scores
// that are NaN.
std::optional<double> find_threshold(std::span<const float> scores, std::span<const float> targets,
                                     const ThresholdGoal& goal);

}  // namespace trainer::engine
