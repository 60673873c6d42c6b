#include "data/arrays/augment_arrays.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/images/augment/augment.h"

namespace trainer::data {
namespace {

class AugmentedArrays final : public Dataset {
 public:
  AugmentedArrays(std::unique_ptr<Dataset> base, Augmentations list, const config::Data& data,
                  std::uint64_t seed)
      : base_(std::move(base)),
        list_(std::move(list)),
        interpolation_(data.interpolation),
        antialias_(data.antialias),
        denormalizer_(config::find_normalize(data)),
        seed_(seed),
        spec_(base_->spec()) {
    spec_.is_random = true;
  }

  std::int64_t size() const override { return base_->size(); }
  const DatasetSpec& spec() const override { return spec_; }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    base_->get(index, epoch, image, label);
    if (epoch == kNoEpoch) return;
    Random draws(seed_, Stream::kAugment, static_cast<std::uint64_t>(epoch),
                 static_cast<std::uint64_t>(index));
    thread_local Pixels pixels, cropped;  // reused for each image
    const Shape& shape = spec_.image_shape;
    const int height = static_cast<int>(shape[0]), width = static_cast<int>(shape[1]);
    pixels.reset(height, width, static_cast<int>(shape[2]));
    std::memcpy(pixels.data(), image, pixels.size());
    if (const auto crop = random_crop_geometry(list_, draws, height, width, height, width)) {
      cropped.reset(height, width, pixels.channels());
      resize(pixels, crop->vertical, crop->horizontal, interpolation_, antialias_, cropped.data());
      std::swap(pixels, cropped);
    }
    augment(list_, denormalizer_, draws, pixels);
    std::memcpy(image, pixels.data(), pixels.size());
  }
  std::string describe(std::int64_t index) const override { return base_->describe(index); }
  std::int32_t label_at(std::int64_t index) const override { return base_->label_at(index); }
  LabelSet label_set_at(std::int64_t index) const override { return base_->label_set_at(index); }
  float weight_at(std::int64_t index) const override { return base_->weight_at(index); }
  // Random changes do not change the identity of the samples.
  std::string fingerprint() const override { return base_->fingerprint(); }
  std::string content_key() const override { return base_->content_key(); }
  std::string common_content() const override { return base_->common_content(); }

 private:
  std::unique_ptr<Dataset> base_;
  Augmentations list_;
  config::Interpolation interpolation_;
  bool antialias_;
  Denormalizer denormalizer_;
  std::uint64_t seed_;
  DatasetSpec spec_;
};

}  // namespace

std::unique_ptr<Dataset> augment_arrays(std::unique_ptr<Dataset> dataset, const config::Data& data,
                                        std::uint64_t seed) {
  Augmentations list = data.train.augment;
  std::erase_if(list, config::is_mixing);
  if (list.empty() || !dataset) return dataset;
  const DatasetSpec& spec = dataset->spec();
  const std::int64_t channels = spec.image_shape[2];
  if (spec.image_type != DType::kUInt8 || (channels != 1 && channels != 3)) {
    throw ConfigError(list.front().loc,
                      "data.train.augment: needs images of uint8 with 1 or 3 channels, but "
                      "these are ",
                      to_string(spec.image_shape), " ", to_string(spec.image_type),
                      "; convert them to uint8, or keep mixup and cutmix alone");
  }
  return std::make_unique<AugmentedArrays>(std::move(dataset), std::move(list), data, seed);
}

}  // namespace trainer::data
