// Reads the size of an image file.
#pragma once

#include <cstdint>
#include <string>

namespace trainer::data {

struct ImageSize {
  std::int64_t height = 0, width = 0;  // extents after rotation by the EXIF orientation
  std::int64_t channels = 0;           // 1 for a grey file, else 3
};
// Reads the whole file, which may lie in a zip archive, but decodes only its header. Throws
// DataError if it is not an image.
ImageSize image_size(const std::string& path);

}  // namespace trainer::data
