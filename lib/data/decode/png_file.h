// PNG files, by libpng.
#pragma once

#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// A PNG whose header has been read. Refers to the bytes that it was made of.
class PngFile {
 public:
  // Throws DataError.
  PngFile(EncodedBytes file, const std::string& path);
  // Height and width as stored, before turning.
  const ImageInfo& info() const { return info_; }
  // Takes the upper 8 of 16 bits, and drops alpha. Checks the checksums of all chunks. Throws
  // DataError. Returns libpng's first warning, "" mostly.
  std::string decode(int channels, int reduce, Pixels& out) const;

 private:
  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
  int bits_ = 8;  // a number
};

}  // namespace trainer::data
