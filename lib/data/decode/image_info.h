// The properties of an image file by its header.
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
  int channels = 0;     // the channels of the file: 1 if it is grey, otherwise 3
  int orientation = 1;  // EXIF
};

}  // namespace trainer::data
