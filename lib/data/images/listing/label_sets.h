// The sets of labels that the images of a list have, if each may have several labels.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace trainer::data {

// Distinct rows of one number per label: 1 and 0 for an image with and without the label, NaN if
// that is unknown. ListedFile::label is then the index of a row, so that images with equal labels
// have equal numbers.
class LabelSets {
 public:
  // `labels` is the number of labels, at least 1.
  explicit LabelSets(std::size_t labels) : labels_(labels) {}

  // Returns the index of this row of labels() numbers, which is added if it is new.
  std::int32_t add(std::span<const float> row);
  std::size_t labels() const { return labels_; }
  std::int32_t size() const { return static_cast<std::int32_t>(by_text_.size()); }
  std::span<const float> row(std::int32_t set) const {
    return std::span(rows_).subspan(static_cast<std::size_t>(set) * labels_, labels_);
  }
  // Returns the names of the labels of a set: "edema|mass", "no label", "edema (mass unknown)".
  std::string describe(std::int32_t set, const std::vector<std::string>& names) const;

 private:
  std::size_t labels_;
  std::vector<float> rows_;
  std::map<std::string, std::int32_t> by_text_;  // a letter per label: 0, 1 or ?
};

}  // namespace trainer::data
