// Reads WebP files with libwebp.
#pragma once

#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// A WebP file whose header has been read. The bytes of the file must outlive it.
class WebpFile {
 public:
  // Throws DataError.
  WebpFile(EncodedBytes file, const std::string& path);
  const ImageInfo& info() const { return info_; }
  // Drops alpha unless `channels` is 4, which needs info().has_alpha. Decodes the first frame of an
  // animation, on black if the frame is smaller than the image. Throws DataError.
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
