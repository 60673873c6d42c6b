// The image that test/data/make_pillow_table.py resizes with Pillow.
#pragma once

#include <cstdint>

#include "data/decode/pixels.h"

namespace trainer::data {

inline Pixels make_pillow_image(int height, int width, int channels) {
  Pixels image(height, width, channels);
  std::uint8_t* to = image.data();
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int value = x * 7 + y * 13 + c * 50 + (x * y) % 29 * 5 + ((x / 5 + y / 3) % 2) * 90;
        *to++ = static_cast<std::uint8_t>(value % 128 + 64);
      }
    }
  }
  return image;
}

}  // namespace trainer::data
