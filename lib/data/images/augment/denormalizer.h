// Turns numbers of a normalized image back into pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "config/sections/data.h"

namespace trainer::data {

// The inverse of data.normalize. Random changes come before normalization, so that this class gives
// those that are defined after it, such as an erased part of N(0, 1), their pixels. timm erases
// after normalization, on the device; here images are bytes until the device normalizes them. With
// ImageNet's mean and std the rounding moves a number by at most 0.009, and the 3 to 4 % that no
// pixel reaches are cut. Float images would be exact, but four times as large in the loader, in the
// copy to the device and in mixing.
class Denormalizer {
 public:
  explicit Denormalizer(const config::Normalize& normalize);
  // Returns the pixel that becomes `value` in a channel, rounded and cut to [0, 255].
  std::uint8_t find_pixel(int channel, float value) const;

 private:
  // Value z of a channel is the pixel zero + z * unit.
  struct Channel {
    float zero = 0, unit = 0;
  };
  std::vector<Channel> channels_;  // one entry is for all channels
};

}  // namespace trainer::data
