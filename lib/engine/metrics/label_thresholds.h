// Finds the threshold of a label from the scores of samples.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace trainer::engine {

// What a threshold is to reach: the largest F1, or the smallest false positive rate with at least
// this sensitivity (recall).
struct ThresholdGoal {
  std::optional<double> sensitivity = {};  // in (0, 1]; F1 if empty
};

// Returns "f1" or "sensitivity=0.95".
std::string to_string(const ThresholdGoal& goal);
// Reads what to_string() writes; nullopt for other texts.
std::optional<ThresholdGoal> parse_threshold_goal(const std::string& text);

// Returns the threshold, above which a score predicts the label: half-way between two scores, or 1
// below the smallest. Of several that reach the goal, returns the largest. Both spans have one
// number per sample; targets are 1, 0 or NaN (unknown, left out). Returns nullopt without a known
// sample that has the label, and for scores that are NaN.
std::optional<double> find_threshold(std::span<const float> scores, std::span<const float> targets,
                                     const ThresholdGoal& goal);

}  // namespace trainer::engine
