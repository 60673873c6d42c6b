// What the frozen layers of a model make of the samples of a data set, kept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/loader.h"
#include "data/loading/records.h"

namespace trainer::data {

// The samples of `images`, which must outlive it, with features in place of images, as far as they
// have been stored. Labels are kept beside them, so that no image is decoded for its label.
class FeatureDataset final : public Dataset {
 public:
  // `shape` and `type` of one sample's features. `file`: where they are kept, in memory when empty.
  // The caller puts everything that the content depends on into the file's name.
  FeatureDataset(const Dataset& images, Shape shape, DType type, const Path& file);

  // Bytes that a sample of such a data set takes.
  static std::size_t record_bytes(const Dataset& images, const Shape& shape, DType type);

  // Whether every sample is there; only then may get() be called.
  bool complete() const;
  // Keeps the features of a batch of `images`, rows packed.
  void store(const Batch& batch, const void* features);

  std::int64_t size() const override { return images_.size(); }
  const DatasetSpec& spec() const override { return spec_; }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* features, void* label) const override;
  std::string describe(std::int64_t index) const override { return images_.describe(index); }
  std::string fingerprint() const override { return "features of " + images_.fingerprint(); }

 private:
  const Dataset& images_;
  DatasetSpec spec_;
  std::size_t feature_bytes_, label_bytes_;
  mutable Records records_;
  mutable std::int64_t known_ = 0;  // the first so many samples are there
  std::vector<std::uint8_t> scratch_;
};

}  // namespace trainer::data
