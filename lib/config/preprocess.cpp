#include <algorithm>

#include "config/sections/augmentation.h"
#include "config/sections/data.h"

namespace trainer::config {
namespace {

double find_entry(const std::vector<double>& list, std::size_t channel, double otherwise) {
  return list.empty() ? otherwise : list[std::min(channel, list.size() - 1)];
}

}  // namespace

double Normalize::find_mean(std::size_t channel) const { return find_entry(mean, channel, 0); }
double Normalize::find_std(std::size_t channel) const { return find_entry(std, channel, 1); }
std::size_t Normalize::listed_channels() const {
  return std::max({std::size_t{1}, mean.size(), std.size()});
}

// The numbers are those of keras.applications.imagenet_utils.preprocess_input(). caffe's means are
// in the order of the reversed channels: blue, green, red.
Normalize find_normalize(const Data& data) {
  if (!data.preprocess) return data.normalize.value_or(Normalize{});
  switch (*data.preprocess) {
    case PreprocessPreset::kTf:
      return {1 / 127.5, {1}, {}, false};
    case PreprocessPreset::kCaffe:
      return {1, {103.939, 116.779, 123.68}, {}, true};
    case PreprocessPreset::kTorch:
      return {1 / 255.0, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, false};
    case PreprocessPreset::kScale:
      return {1 / 255.0, {}, {}, false};
    case PreprocessPreset::kNone:
      return {1, {}, {}, false};
  }
  return {};
}

bool is_image_format(DataFormat format) {
  return format == DataFormat::kImageFolder || format == DataFormat::kCsv ||
         format == DataFormat::kTfRecord || format == DataFormat::kWebDataset;
}

bool holds_arrays(DataFormat format) {
  return format == DataFormat::kIdx || format == DataFormat::kNpz;
}

bool is_mixing(const Augmentation& augmentation) {
  return std::holds_alternative<MixUp>(augmentation.kind) ||
         std::holds_alternative<CutMix>(augmentation.kind);
}

bool mixes_samples(const Data& data) { return std::ranges::any_of(data.train.augment, is_mixing); }

}  // namespace trainer::config
