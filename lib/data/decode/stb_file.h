// Image files that stb_image reads.
#pragma once

#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

bool is_tga(EncodedBytes file);

class StbFile {
 public:
  StbFile(EncodedBytes file, const std::string& path, ImageKind kind);
  ImageInfo info() const { return info_; }
  std::string decode(int channels, int reduce, Pixels& out);

 private:
  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
};

}  // namespace trainer::data
