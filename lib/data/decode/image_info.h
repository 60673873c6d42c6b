// The properties of an image file by its header.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/spelling.h"

namespace trainer::data {

using EncodedBytes = std::span<const std::uint8_t>;

enum class ImageKind { kJpeg, kPng, kGif, kBmp, kPnm, kWebp, kTiff };
constexpr auto spellings(ImageKind) {
  using enum ImageKind;
  return std::to_array<Spelling<ImageKind>>({{kJpeg, "JPEG"},
                                             {kPng, "PNG"},
                                             {kGif, "GIF"},
                                             {kBmp, "BMP"},
                                             {kPnm, "PNM"},
                                             {kWebp, "WebP"},
                                             {kTiff, "TIFF"}});
}
inline std::string to_string(ImageKind kind) { return std::string(spell(kind)); }

struct ImageInfo {
  ImageKind kind = ImageKind::kJpeg;
  int height = 0, width = 0;
  int channels = 0;        // the channels after decoding: 1 if the file is grey, otherwise 3
  bool has_alpha = false;  // set for PNG and WebP files, which can be decoded with it
  int bits = 8;            // bits per value: 16 for PNG and TIFF files that data.range scales
  int orientation = 1;     // EXIF
};

}  // namespace trainer::data
