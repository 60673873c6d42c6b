// A cache of the features that the frozen layers of a model compute from a data set.
#pragma once

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
  // on. The file has a record for each sample of list_samples(images).
  FeatureDataset(const Dataset& images, Shape shape, DType type, const Path& file);

  // Returns the data set that the records of a file are numbered by: the whole of which `images` is
  // a part, so that the parts of all folds and divisions share one file; `images` itself if its
  // samples are not those of the whole or change at random.
  static const Dataset& list_samples(const Dataset& images);

  // Returns the bytes of one sample in the cache.
  static std::size_t record_bytes(const Dataset& images, const Shape& shape, DType type);

  // Returns the file, empty for features in memory.
  const Path& file() const { return records_.path(); }
  // Returns whether all samples are stored, also by other processes. get() must not be called
  // before they are.
  bool complete() const;
  // Stores the features of a batch of `images`, whose rows are packed.
  void store(const Batch& batch, const void* features);

  std::int64_t size() const override { return images_.size(); }
  const DatasetSpec& spec() const override { return spec_; }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* features, void* label) const override;
  std::string describe(std::int64_t index) const override { return images_.describe(index); }
  std::int32_t label_at(std::int64_t index) const override { return images_.label_at(index); }
  LabelSet label_set_at(std::int64_t index) const override { return images_.label_set_at(index); }
  float weight_at(std::int64_t index) const override { return images_.weight_at(index); }
  std::string fingerprint() const override { return "features of " + images_.fingerprint(); }

 private:
  std::int64_t record(std::int64_t index) const {
    return indices_.empty() ? index : indices_[index];
  }

  const Dataset& images_;
  DatasetSpec spec_;
  std::span<const std::int64_t> indices_;  // the record of each sample; empty: its own number
  std::size_t feature_bytes_, label_bytes_;
  mutable Records records_;
  mutable std::int64_t known_ = 0;  // samples [0, known_) are known to be stored
  std::vector<std::uint8_t> scratch_;
};

}  // namespace trainer::data
