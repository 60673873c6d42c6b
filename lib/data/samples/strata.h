// The strata of samples: the classes or labels whose shares a division of the samples keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace trainer::data {

// A sample with one label has one stratum, its class. A sample with several labels has a stratum
// for each label that it has, and all of them have kCommon, which keeps the number of samples in
// each part; so stratified parts have their shares of every label.
class Strata {
 public:
  static constexpr std::int32_t kCommon = -1;

  // `classes` has the class of each sample, -1 for an unknown one.
  explicit Strata(std::span<const std::int32_t> classes);
  // `sets` has the labels of each sample with several labels.
  explicit Strata(std::span<const LabelSet> sets);

  std::size_t samples() const { return begins_.size() - 1; }
  std::span<const std::int32_t> of_sample(std::size_t index) const;
  // Returns whether each sample has exactly one stratum.
  bool is_by_class() const { return is_by_class_; }
  // Returns the class of each sample. Requires is_by_class().
  std::span<const std::int32_t> classes() const { return numbers_; }

 private:
  std::vector<std::size_t> begins_{0};  // starts in numbers_, by sample; its size at the end
  std::vector<std::int32_t> numbers_;
  bool is_by_class_;
};

// Returns the strata of all samples of a data set.
Strata list_strata(const Dataset& dataset);

}  // namespace trainer::data
