// Converts CMYK to RGB as Pillow does.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trainer::data {

// Returns what an ink (0 to 255) leaves of a light level, rounded to the nearest level. `light` is
// 255 minus black.
inline std::uint8_t apply_ink(int ink, int light) {
  const int product = ink * light + 128;
  const int taken = ((product >> 8) + product) >> 8;  // ink * light / 255
  return static_cast<std::uint8_t>(std::max(light - taken, 0));
}

}  // namespace trainer::data
