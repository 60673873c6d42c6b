// The area below a ROC curve and its variance by their definitions, over all pairs of samples.
#pragma once

#include <cmath>
#include <span>
#include <vector>

namespace trainer::test {

struct PairArea {
  double area = 0;
  double variance =
      0;  // DeLong et al., "Comparing the areas under two or more correlated ...", 1988
};

// Both kinds of samples have at least two scores.
inline PairArea compare_pairs(std::span<const double> positives,
                              std::span<const double> negatives) {
  const auto value = [](double positive, double negative) {
    return positive > negative ? 1.0 : positive == negative ? 0.5 : 0.0;
  };
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double one : values) sum += one;
    return sum / static_cast<double>(values.size());
  };
  const auto variance_of_mean = [&](const std::vector<double>& values) {
    double sum = 0;
    for (const double one : values) sum += std::pow(one - mean(values), 2);
    const auto n = static_cast<double>(values.size());
    return sum / (n - 1) / n;
  };
  // The share of its pairs that each sample wins.
  std::vector<double> of_positive, of_negative;
  for (const double positive : positives) {
    std::vector<double> pairs;
    for (const double negative : negatives) pairs.push_back(value(positive, negative));
    of_positive.push_back(mean(pairs));
  }
  for (const double negative : negatives) {
    std::vector<double> pairs;
    for (const double positive : positives) pairs.push_back(value(positive, negative));
    of_negative.push_back(mean(pairs));
  }
  return {mean(of_positive), variance_of_mean(of_positive) + variance_of_mean(of_negative)};
}

}  // namespace trainer::test
