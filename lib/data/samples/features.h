// A cache of the features that the frozen layers of a model compute from a data set.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/samples/loader.h"
#include "data/samples/records.h"

namespace trainer::data {

// The samples of `images`, which must outlive this object, with stored features instead of images.
// Labels are stored too, so that no image is decoded for its label.
class FeatureDataset final : public Dataset {
 public:
  // `shape` and `type` are those of the features of one sample. They are stored in `file`, or in
  // memory if it is empty. The name of the file must contain everything that the features depend
  // on.
  FeatureDataset(const Dataset& images, Shape shape, DType type, const Path& file);

  // Returns the bytes of one sample in the cache.
  static std::size_t record_bytes(const Dataset& images, const Shape& shape, DType type);

  // Returns whether all samples are stored. get() must not be called before they are.
  bool complete() const;
  // Stores the features of a batch of `images`, whose rows are packed.
  void store(const Batch& batch, const void* features);

  std::int64_t size() const override { return images_.size(); }
  const DatasetSpec& spec() const override { return spec_; }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* features, void* label) const override;
  std::string describe(std::int64_t index) const override { return images_.describe(index); }
  std::int32_t label_at(std::int64_t index) const override { return images_.label_at(index); }
  std::span<const float> targets_at(std::int64_t index) const override {
    return images_.targets_at(index);
  }
  float weight_at(std::int64_t index) const override { return images_.weight_at(index); }
  std::string fingerprint() const override { return "features of " + images_.fingerprint(); }

 private:
  const Dataset& images_;
  DatasetSpec spec_;
  std::size_t feature_bytes_, label_bytes_;
  mutable Records records_;
  mutable std::int64_t known_ = 0;  // samples [0, known_) are known to be stored
  std::vector<std::uint8_t> scratch_;
};

}  // namespace trainer::data
