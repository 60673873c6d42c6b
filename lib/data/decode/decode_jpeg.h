// JPEG files: plain ones by our own decoder, the others and all that are damaged by libjpeg.
#pragma once

#include "data/images/image.h"

namespace trainer::data {

// ITU-R 601 luma as Pillow computes it.
inline std::uint8_t luma(int red, int green, int blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

ImageInfo jpeg_header(std::span<const std::uint8_t> file, const std::string& path);
// Gives 1 channel for a grey file or when `channels` is 1 and the file holds YCbCr or RGB, else 3.
// Does not turn the image.
void decode_jpeg(std::span<const std::uint8_t> file, const std::string& path, int channels,
                 int reduce, Pixels& out, std::string* warning);
// The same by libjpeg alone, which says what is right: pixels, warnings and errors.
void decode_with_libjpeg(std::span<const std::uint8_t> file, const std::string& path, int channels,
                         int reduce, Pixels& out, std::string* warning);

}  // namespace trainer::data
