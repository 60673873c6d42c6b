#include "data/samples/strata.h"

namespace trainer::data {

Strata::Strata(std::span<const std::int32_t> classes)
    : numbers_(classes.begin(), classes.end()), is_by_class_(true) {
  for (std::size_t i = 1; i <= classes.size(); ++i) begins_.push_back(i);
}

Strata::Strata(std::span<const LabelSet> sets) : is_by_class_(false) {
  for (const LabelSet& labels : sets) {
    numbers_.push_back(kCommon);
    numbers_.insert(numbers_.end(), labels.present.begin(), labels.present.end());
    begins_.push_back(numbers_.size());
  }
}

std::span<const std::int32_t> Strata::of_sample(std::size_t index) const {
  return std::span(numbers_).subspan(begins_[index], begins_[index + 1] - begins_[index]);
}

Strata list_strata(const Dataset& dataset) {
  if (!dataset.spec().is_multi_label()) return Strata(list_labels(dataset));
  std::vector<LabelSet> sets;
  for (std::int64_t i = 0; i < dataset.size(); ++i) sets.push_back(dataset.label_set_at(i));
  return Strata(sets);
}

}  // namespace trainer::data
