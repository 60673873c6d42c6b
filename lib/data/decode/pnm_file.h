// Reads PBM, PGM and PPM files, binary and plain. https://netpbm.sourceforge.net/doc/pnm.html
#pragma once

#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// A PNM file (P1 to P6) whose header has been read. The bytes of the file must outlive it.
class PnmFile {
 public:
  // Throws DataError, also if a binary file is shorter than its pixels.
  PnmFile(EncodedBytes file, const std::string& path);
  const ImageInfo& info() const { return info_; }
  // Scales numbers of another range to 0 to 255. In a PBM, 1 is black. Throws DataError
  // if a plain file has too few numbers, or one above the largest value.
  std::string decode(int channels, int reduce, Pixels& out) const;

 private:
  enum class Coding { kBytes, kBits, kText, kTextBits };
  void decode_text(Pixels& out) const;

  std::string path_;
  ImageInfo info_;
  Coding coding_ = Coding::kBytes;
  int max_value_ = 255;   // the number that stands for white
  EncodedBytes numbers_;  // kBytes: of one byte, or two (big-endian) if `max_value_` is above 255
};

}  // namespace trainer::data
