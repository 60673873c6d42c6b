// What the header of an image file says.
#pragma once

#include <cstdint>
#include <span>

namespace trainer::data {

using EncodedBytes = std::span<const std::uint8_t>;

enum class ImageKind { kJpeg, kPng, kGif, kBmp, kPnm, kWebp, kTiff };
const char* to_string(ImageKind kind);  // "JPEG", "PNG", ...

struct ImageInfo {
  ImageKind kind = ImageKind::kJpeg;
  int height = 0, width = 0;
  int channels = 0;     // 1 or 3 that decoding gives: 1 for a grey file, whatever is asked for
  int orientation = 1;  // EXIF
};

}  // namespace trainer::data
