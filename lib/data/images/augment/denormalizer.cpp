#include "data/images/augment/denormalizer.h"

#include <algorithm>

namespace trainer::data {
namespace {

double find_entry(const std::vector<double>& list, std::size_t channel, double otherwise) {
  return list.empty() ? otherwise : list[std::min(channel, list.size() - 1)];
}

}  // namespace

Denormalizer::Denormalizer(const config::Normalize& normalize) {
  channels_.resize(std::max({std::size_t{1}, normalize.mean.size(), normalize.std.size()}));
  if (normalize.scale == 0) return;  // every pixel becomes the same number
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    channels_[i] = {static_cast<float>(find_entry(normalize.mean, i, 0) / normalize.scale),
                    static_cast<float>(find_entry(normalize.std, i, 1) / normalize.scale)};
  }
  if (normalize.reverse_channels) std::reverse(channels_.begin(), channels_.end());
}

std::uint8_t Denormalizer::find_pixel(int channel, float value) const {
  const auto [zero, unit] =
      channels_[std::min(static_cast<std::size_t>(channel), channels_.size() - 1)];
  const float rounded = zero + value * unit + 0.5f;
  if (!(rounded > 0)) return 0;
  return rounded < 255 ? static_cast<std::uint8_t>(rounded) : std::uint8_t{255};
}

}  // namespace trainer::data
