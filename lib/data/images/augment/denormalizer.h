// Turns numbers of a normalized image back into pixels.
// Reasons: lib/decisions/data.md#noise-of-erased-pixels-is-rounded-to-bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "config/sections/data.h"

namespace trainer::data {

// The inverse of data.normalize. Random changes come before normalization, so that this class gives
// those that are defined after it, such as an erased part of N(0, 1), their pixels.
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
