#include "data/samples/strata.h"

namespace trainer::data {

Strata::Strata(std::span<const std::int32_t> classes)
    : numbers_(classes.begin(), classes.end()), is_by_class_(true) {
  for (std::size_t i = 1; i <= classes.size(); ++i) begins_.push_back(i);
}

Strata::Strata(std::span<const std::span<const float>> targets) : is_by_class_(false) {
  for (const std::span<const float> labels : targets) {
    numbers_.push_back(kCommon);
    for (std::size_t label = 0; label < labels.size(); ++label) {
      // An unknown label is NaN, which is not at least 0.5.
      if (labels[label] >= 0.5f) numbers_.push_back(static_cast<std::int32_t>(label));
    }
    begins_.push_back(numbers_.size());
  }
}

std::span<const std::int32_t> Strata::of_sample(std::size_t index) const {
  return std::span(numbers_).subspan(begins_[index], begins_[index + 1] - begins_[index]);
}

Strata list_strata(const Dataset& dataset) {
  if (!dataset.spec().is_multi_label()) return Strata(list_labels(dataset));
  std::vector<std::span<const float>> targets;
  for (std::int64_t i = 0; i < dataset.size(); ++i) targets.push_back(dataset.targets_at(i));
  return Strata(targets);
}

}  // namespace trainer::data
