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
  // Alpha is dropped. An animation is its first frame, on black where the frame is smaller. Throws
  // DataError.
  std::string decode(int channels, int reduce, Pixels& out) const;

 private:
  void read_first_frame();

  EncodedBytes file_;
  std::string path_;
  EncodedBytes image_;  // the file, or the bit stream of the first frame
  int left_ = 0, top_ = 0, frame_width_ = 0, frame_height_ = 0;
  ImageInfo info_;
};

}  // namespace trainer::data
