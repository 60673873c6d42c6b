#include "data/images/augment/denormalizer.h"

#include <algorithm>

namespace trainer::data {

Denormalizer::Denormalizer(const config::Normalize& normalize) {
  channels_.resize(normalize.listed_channels());
  if (normalize.scale == 0) return;  // every pixel becomes the same number
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    channels_[i] = {static_cast<float>(normalize.find_mean(i) / normalize.scale),
                    static_cast<float>(normalize.find_std(i) / normalize.scale)};
  }
  if (normalize.reverse_channels) std::ranges::reverse(channels_);
}

std::uint8_t Denormalizer::find_pixel(int channel, float value) const {
  const auto [zero, unit] =
      channels_[std::min(static_cast<std::size_t>(channel), channels_.size() - 1)];
  const float rounded = zero + value * unit + 0.5f;
  if (!(rounded > 0)) return 0;
  return rounded < 255 ? static_cast<std::uint8_t>(rounded) : std::uint8_t{255};
}

}  // namespace trainer::data
