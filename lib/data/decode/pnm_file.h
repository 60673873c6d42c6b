// Binary PGM and PPM files. https://netpbm.sourceforge.net/doc/pnm.html
#pragma once

#include <cstddef>
#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// A PGM (P5) or PPM (P6) whose header has been read. Refers to the bytes that it was made of.
class PnmFile {
 public:
  // Throws DataError, also when the file is shorter than its pixels.
  PnmFile(EncodedBytes file, const std::string& path);
  const ImageInfo& info() const { return info_; }
  // Numbers of another range than 0 to 255 are scaled to it.
  std::string decode(int channels, int reduce, Pixels& out) const;

 private:
  ImageInfo info_;
  int most_ = 255;        // the number that stands for white
  EncodedBytes numbers_;  // of one byte, or two (big-endian) where `most_` is above 255
};

}  // namespace trainer::data
