// The size of an image file, by its header.
#pragma once

#include <cstdint>
#include <string>

namespace trainer::data {

struct ImageSize {
  std::int64_t height = 0, width = 0;  // turned as the EXIF orientation says
  std::int64_t channels = 0;           // 1 for a grey file, else 3
};
// Throws DataError when the file is no image.
ImageSize image_size(const std::string& path);

}  // namespace trainer::data
