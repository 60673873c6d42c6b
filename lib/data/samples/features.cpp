#include "data/samples/features.h"

#include <cstring>

#include "base/error.h"

namespace trainer::data {
namespace {

DatasetSpec feature_spec(const Dataset& images, Shape shape, DType type, bool in_memory) {
  DatasetSpec spec = images.spec();
  spec.image_shape = std::move(shape);
  spec.image_type = type;
  spec.is_random = false;
  spec.in_memory = in_memory;
  return spec;
}

}  // namespace

FeatureDataset::FeatureDataset(const Dataset& images, Shape shape, DType type, const Path& file)
    : images_(images),
      spec_(feature_spec(images, std::move(shape), type, file.empty())),
      feature_bytes_(spec_.image_bytes()),
      label_bytes_(spec_.label_bytes()),
      records_(file, (file.empty() ? images : list_samples(images)).size(),
               feature_bytes_ + label_bytes_, "choose another train.cache_features, or off"),
      scratch_(records_.record_bytes()) {
  if (!file.empty() && &list_samples(images) != &images) indices_ = images.find_part().indices;
}

const Dataset& FeatureDataset::list_samples(const Dataset& images) {
  const Dataset* const whole = images.find_part().whole;
  return whole != nullptr && !whole->spec().is_random ? *whole : images;
}

std::size_t FeatureDataset::record_bytes(const Dataset& images, const Shape& shape, DType type) {
  const DatasetSpec spec = feature_spec(images, shape, type, false);
  return spec.image_bytes() + spec.label_bytes();
}

bool FeatureDataset::complete() const {
  while (known_ < size() && records_.holds(record(known_))) ++known_;
  return known_ == size();
}

void FeatureDataset::store(const Batch& batch, const void* features) {
  const auto* rows = static_cast<const std::uint8_t*>(features);
  const auto* labels = static_cast<const std::uint8_t*>(batch.labels);
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    std::memcpy(scratch_.data(), rows + i * feature_bytes_, feature_bytes_);
    std::memcpy(scratch_.data() + feature_bytes_, labels + i * label_bytes_, label_bytes_);
    records_.store(record(batch.indices[i]), scratch_.data());
  }
}

void FeatureDataset::get(std::int64_t index, std::int64_t, void* features, void* label) const {
  thread_local std::vector<std::uint8_t> bytes;
  bytes.resize(records_.record_bytes());
  if (!records_.load(record(index), bytes.data())) {
    throw DataError(records_.path().string(), "the features of sample ", index,
                    " do not match their checksum: the file was overwritten or cut while it "
                    "was in use; remove it, and go on with --resume");
  }
  std::memcpy(features, bytes.data(), feature_bytes_);
  std::memcpy(label, bytes.data() + feature_bytes_, label_bytes_);
}

}  // namespace trainer::data
