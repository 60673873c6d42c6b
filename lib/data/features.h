// What the frozen layers of a model make of the samples of a data set, kept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/data.h"
#include "data/loading/records.h"

namespace trainer::data {

// The samples of `images`, which must outlive it, with features in place of images, as far as they
// have been stored. Labels are kept beside them, so that no image is decoded for its label.
class FeatureDataset final : public Dataset {
 public:
  // `shape` and `type` of one sample's features. `file`: where they are kept, in memory when empty.
  // Whoever names the file sees to it that its name tells apart what its content depends on.
  FeatureDataset(const Dataset& images, Shape shape, DType type, const Path& file);

  // Bytes that a sample of such a data set takes.
  static std::size_t record_bytes(const Dataset& images, const Shape& shape, DType type);

  // Whether every sample is there; only then may get() be called.
  bool complete() const;
  // Keeps the features of a batch of `images`, rows packed.
  void store(const Batch& batch, const void* features);

  std::int64_t size() const override { return images_.size(); }
  Shape image_shape() const override { return shape_; }
  DType image_type() const override { return type_; }
  bool label_is_index() const override { return images_.label_is_index(); }
  std::int64_t label_width() const override { return images_.label_width(); }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* features, void* label) const override;
  std::string describe(std::int64_t index) const override { return images_.describe(index); }
  std::vector<std::string> report() const override { return images_.report(); }
  bool in_memory() const override { return in_memory_; }
  std::string fingerprint() const override { return "features of " + images_.fingerprint(); }

 private:
  const Dataset& images_;
  Shape shape_;
  DType type_;
  bool in_memory_;
  std::size_t feature_bytes_, label_bytes_;
  mutable Records records_;
  mutable std::int64_t known_ = 0;  // the first so many samples are there
  std::vector<std::uint8_t> scratch_;
};

}  // namespace trainer::data
