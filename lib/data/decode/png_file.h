// Reads PNG files with libpng.
#pragma once

#include <string>

#include "data/decode/image_info.h"
#include "data/decode/level_table.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// A PNG file whose header has been read. The bytes of the file must outlive it.
class PngFile {
 public:
  // Throws DataError.
  PngFile(EncodedBytes file, const std::string& path);
  // Height and width are those before rotation.
  const ImageInfo& info() const { return info_; }
  // Takes the byte that `levels` gives each 16-bit value, or the upper byte if it is null, and
  // drops alpha. Verifies the checksums of all chunks. Returns the first warning of libpng, "" for
  // none. Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels) const;
  // Returns the largest 16-bit value without alpha. Throws DataError.
  int find_max_value(int channels) const;

 private:
  // Reads rows of info().channels values of `bytes` each, big-endian. Returns libpng's warning.
  std::string read_rows(int bytes, std::uint8_t* rows) const;

  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
  int bits_ = 8;  // per number
};

}  // namespace trainer::data
