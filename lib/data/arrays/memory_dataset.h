// A data set of arrays in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/arrays/array.h"
#include "data/dataset.h"
#include "data/images/listing/label_sets.h"

namespace trainer::data {

// Images [n, height, width], [n, height, width, channels] or [n, features] with labels [n] or
// [n, targets], or with further dimensions of 1, all in memory.
class MemoryDataset final : public Dataset {
 public:
  // Throws DataError for other dimensions, and for labels that are not class indices.
  MemoryDataset(Array images, Array labels);
  std::int64_t size() const override { return images_.dims[0]; }
  const DatasetSpec& spec() const override { return spec_; }
  std::int32_t label_at(std::int64_t index) const override {
    return indices_.empty() ? -1 : indices_[index];
  }
  LabelSet label_set_at(std::int64_t index) const override;
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override;
  std::string fingerprint() const override;
  std::string common_content() const override { return content_key(); }
  std::string content_key() const override;

  // Returns whether labels are several numbers per sample, each 0, 1 or NaN (unknown).
  bool has_columns_of_labels() const;
  // Makes each of these numbers a label of its own, as kMultiLabel.
  void take_columns_as_labels();
  // Throws DataError with the file and the sample unless every target is NaN or in [0, 1].
  void check_shares() const;
  // Returns the largest class index, -1 if labels are not class indices. Throws DataError if the
  // labels would make more than max_classes().
  std::int64_t max_label() const;
  // Throws DataError with the file and the sample unless every label is in [0, num_classes).
  void check_labels(std::int64_t num_classes) const;
  // Throws DataError with the file and the first sample whose image or label holds NaN or infinity.
  // `split` is its name in the message, such as "train split"; "" for images to predict.
  void check_finite(const std::string& split) const;

 private:
  Array images_;
  std::string label_source_;
  DatasetSpec spec_;
  std::size_t image_bytes_ = 0;
  std::vector<std::int32_t> indices_;
  std::vector<float> targets_;
  // With several labels per sample, their sets and the index of that of each sample.
  std::unique_ptr<LabelSets> label_sets_;
  std::vector<std::int32_t> set_indices_;
};

}  // namespace trainer::data
