// WebP files, by libwebp.
#pragma once

#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// A WebP whose header has been read. Refers to the bytes that it was made of.
class WebpFile {
 public:
  // Throws DataError.
  WebpFile(EncodedBytes file, const std::string& path);
  const ImageInfo& info() const { return info_; }
  // Alpha is dropped. An animation is refused. Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out) const;

 private:
  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
};

}  // namespace trainer::data
