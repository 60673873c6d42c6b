#include "commands/suspects/wrong_labels.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

namespace trainer::commands {
namespace {

constexpr double kProbabilityRounding = 1e-6;  // as in cleanlab

// Returns the mean probability of each class over its samples; infinity for a class without any.
std::vector<double> find_class_thresholds(std::span<const std::int32_t> labels,
                                          std::span<const double> probabilities,
                                          std::size_t classes) {
  std::vector<double> sums(classes), counts(classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::size_t label = labels[i];
    sums[label] += probabilities[i * classes + label];
    ++counts[label];
  }
  for (std::size_t c = 0; c < classes; ++c) {
    sums[c] = counts[c] > 0 ? sums[c] / counts[c] : std::numeric_limits<double>::infinity();
  }
  return sums;
}

// Returns the class that a sample confidently belongs to, if there is one.
std::optional<std::size_t> find_confident_class(std::span<const double> row,
                                                const std::vector<double>& thresholds,
                                                std::size_t likeliest) {
  std::optional<std::size_t> only;
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (row[c] < thresholds[c] - kProbabilityRounding) continue;
    if (only) return likeliest;
    only = c;
  }
  return only;
}

}  // namespace

std::vector<WrongLabel> find_wrong_labels(std::span<const std::int32_t> labels,
                                          std::span<const double> probabilities,
                                          std::size_t classes) {
  const std::vector<double> thresholds = find_class_thresholds(labels, probabilities, classes);
  std::vector<WrongLabel> found;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<const double> row = probabilities.subspan(i * classes, classes);
    const std::size_t label = labels[i];
    const auto likeliest = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
    // A label that is likeliest but for rounding is not suspect.
    if (row[likeliest] <= row[label] + kProbabilityRounding) continue;
    const std::optional<std::size_t> confident = find_confident_class(row, thresholds, likeliest);
    if (!confident || *confident == label) continue;
    found.push_back({i, static_cast<std::int32_t>(*confident), row[likeliest] - row[label]});
  }
  std::ranges::stable_sort(found, std::greater<>(), &WrongLabel::margin);
  return found;
}

}  // namespace trainer::commands
