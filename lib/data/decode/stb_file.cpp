#include "data/decode/stb_file.h"

#include <algorithm>

#include "base/error.h"

#define STBI_NO_STDIO
#include <stb/stb_image.h>

namespace trainer::data {

bool is_tga(EncodedBytes file) {
  int w = 0, h = 0, c = 0;
  return stbi_info_from_memory(file.data(), static_cast<int>(file.size()), &w, &h, &c) != 0;
}

StbFile::StbFile(EncodedBytes file, const std::string& path, ImageKind kind)
    : file_(file), path_(path) {
  info_.kind = kind;
  int channels = 0;
  if (stbi_info_from_memory(file.data(), static_cast<int>(file.size()), &info_.width, &info_.height,
                            &channels) == 0) {
    throw DataError(
        path, concat(to_string(kind), ": the header cannot be read (", stbi_failure_reason(), ")"));
  }
  info_.channels = channels < 3 ? 1 : 3;
}

std::string StbFile::decode(int, int, Pixels& out) {
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<std::uint8_t, void (*)(void*)> pixels(
      stbi_load_from_memory(file_.data(), static_cast<int>(file_.size()), &width, &height,
                            &channels, info_.channels),
      stbi_image_free);
  if (!pixels) {
    throw DataError(
        path_, concat(to_string(info_.kind), ": cannot be decoded (", stbi_failure_reason(), ")"));
  }
  out.reset(height, width, info_.channels);
  std::copy_n(pixels.get(), out.size(), out.data());
  return "";
}

}  // namespace trainer::data
