// Reads PNG files with libpng.
#pragma once

#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// A PNG file whose header has been read. The bytes of the file must outlive it.
class PngFile {
 public:
  // Throws DataError.
  PngFile(EncodedBytes file, const std::string& path);
  // Height and width are those before rotation.
  const ImageInfo& info() const { return info_; }
  // Keeps the upper 8 of 16 bits, and drops alpha. Verifies the checksums of all chunks. Returns
  // the first warning of libpng, "" for none. Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out) const;

 private:
  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
  int bits_ = 8;  // per number
};

}  // namespace trainer::data
