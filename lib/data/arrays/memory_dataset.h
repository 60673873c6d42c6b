// A data set of arrays in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/arrays/array.h"
#include "data/dataset.h"

namespace trainer::data {

// Images [n, height, width], [n, height, width, channels] or [n, features] with labels [n] or
// [n, targets], all in memory.
class MemoryDataset final : public Dataset {
 public:
  // Throws DataError for other dimensions, and for labels that are not class indices.
  MemoryDataset(Array images, Array labels);
  std::int64_t size() const override { return images_.dims[0]; }
  const DatasetSpec& spec() const override { return spec_; }
  std::int32_t label_at(std::int64_t index) const override {
    return indices_.empty() ? -1 : indices_[index];
  }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override;
  std::string fingerprint() const override;
  std::string common_content() const override { return content_key(); }
  std::string content_key() const override;

  // Returns the largest class index, -1 if labels are not class indices. Throws DataError if the
  // labels would make more than max_classes().
  std::int64_t max_label() const;
  // Throws DataError with the file and the sample unless every label is in [0, num_classes).
  void check_labels(std::int64_t num_classes) const;

 private:
  Array images_;
  std::string label_source_;
  DatasetSpec spec_;
  std::size_t image_bytes_ = 0;
  std::vector<std::int32_t> indices_;
  std::vector<float> targets_;
};

}  // namespace trainer::data
