#include "data/features.h"

#include <cstring>
#include <stdexcept>

#include "base/error.h"

namespace trainer::data {
namespace {

std::size_t label_bytes(const Dataset& dataset) {
  return dataset.label_is_index() ? sizeof(std::int32_t)
                                  : static_cast<std::size_t>(dataset.label_width()) * sizeof(float);
}

std::size_t feature_bytes(const Shape& shape, DType type) {
  return static_cast<std::size_t>(shape.elements()) * size_of(type);
}

}  // namespace

FeatureDataset::FeatureDataset(const Dataset& images, Shape shape, DType type, const Path& file)
    : images_(images),
      shape_(std::move(shape)),
      type_(type),
      in_memory_(file.empty()),
      feature_bytes_(feature_bytes(shape_, type)),
      label_bytes_(label_bytes(images)),
      records_(file, images.size(), record_bytes(images, shape_, type),
               "choose another train.cache_features, or off"),
      scratch_(records_.record_bytes()) {}

std::size_t FeatureDataset::record_bytes(const Dataset& images, const Shape& shape, DType type) {
  return feature_bytes(shape, type) + label_bytes(images);
}

bool FeatureDataset::complete() const {
  while (known_ < size() && records_.find(known_) != nullptr) ++known_;
  return known_ == size();
}

void FeatureDataset::store(const Batch& batch, const void* features) {
  const auto* rows = static_cast<const std::uint8_t*>(features);
  const auto* labels = static_cast<const std::uint8_t*>(batch.labels);
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    std::memcpy(scratch_.data(), rows + i * feature_bytes_, feature_bytes_);
    std::memcpy(scratch_.data() + feature_bytes_, labels + i * label_bytes_, label_bytes_);
    records_.store(batch.indices[i], scratch_.data());
  }
}

void FeatureDataset::get(std::int64_t index, std::int64_t, void* features, void* label) const {
  const std::uint8_t* record = records_.find(index);
  if (record == nullptr) throw std::logic_error(concat("no features of sample ", index));
  std::memcpy(features, record, feature_bytes_);
  std::memcpy(label, record + feature_bytes_, label_bytes_);
}

}  // namespace trainer::data
