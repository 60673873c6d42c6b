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
  // Takes the byte that `levels` gives each 16-bit value, or the upper byte if it is null. Drops
  // alpha unless `channels` is 2 or 4, which needs info().has_alpha; of 16-bit alpha the upper byte
  // is taken, and a colour that the file declares transparent has an alpha of 0. Verifies the
  // checksums of all chunks. Returns the first warning of libpng, "" for none. Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels) const;
  // Returns the largest 16-bit value without alpha. Throws DataError.
  int find_max_value(int channels) const;

 private:
  // Fills `out`, whose channels are info().channels values of 1 or 2 bytes, big-endian, and a value
  // more with `alpha`. Returns libpng's warning.
  enum class Alpha { kDropped, kKept };
  std::string read_rows(Alpha alpha, Pixels& out) const;

  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
  int bits_ = 8;  // bits per number
};

}  // namespace trainer::data
