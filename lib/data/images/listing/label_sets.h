// The sets of labels that the images of a list have, if each may have several labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace trainer::data {

// Distinct sets of labels. ListedFile::label is the index of a set, so that images with equal
// labels have equal numbers. Memory and time are linear in the labels that are present or unknown:
// a list may have as many labels as images.
class LabelSets {
 public:
  // `labels` is the number of labels, at least 1.
  explicit LabelSets(std::size_t labels) : labels_(labels) {}
  LabelSets(const LabelSets&) = delete;
  LabelSets& operator=(const LabelSets&) = delete;

  // Returns the index of the set of these labels, which is added if it is new. The labels may be in
  // any order, and `present` may have a label more than once. No label is in both.
  std::int32_t add(std::vector<std::int32_t> present, std::vector<std::int32_t> unknown);
  std::size_t labels() const { return labels_; }
  std::int32_t size() const { return static_cast<std::int32_t>(sets_.size()); }
  // Returns a set, which is valid as long as this object.
  LabelSet at(std::int32_t set) const;
  // Writes labels() numbers: 1 for a label that is present, NaN for an unknown one, otherwise 0.
  void write_row(std::int32_t set, std::span<float> row) const;
  // Returns the names of the labels of a set, the first ten of many: "edema|mass", "no label",
  // "edema (mass unknown)".
  std::string describe(std::int32_t set, const std::vector<std::string>& names) const;

 private:
  struct Stored {
    std::vector<std::int32_t> present, unknown;
    bool operator<(const Stored& other) const;
  };

  std::size_t labels_;
  std::map<Stored, std::int32_t> indices_;
  std::vector<const Stored*> sets_;  // the keys of indices_, by index
};

}  // namespace trainer::data
