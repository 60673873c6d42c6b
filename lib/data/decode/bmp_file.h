// Reads bitmaps of Windows and OS/2.
// https://learn.microsoft.com/en-us/windows/win32/gdi/bitmap-storage
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

class ByteReader;

// A BMP file of 1, 4, 8, 16, 24 or 32 bits per pixel, plain or run-length coded, whose header has
// been read. The bytes of the file must outlive it.
class BmpFile {
 public:
  // Throws DataError, also if the file is shorter than its plain pixels.
  BmpFile(EncodedBytes file, const std::string& path);
  const ImageInfo& info() const { return info_; }
  // Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out) const;

 private:
  using Colour = std::array<std::uint8_t, 3>;

  void read_header(ByteReader& reader);
  void read_masks(ByteReader& reader);
  void read_palette(ByteReader& reader, std::size_t colours, std::size_t bytes);
  std::size_t row_bytes() const;
  // Returns a byte per index, the stored rows one after the other.
  std::vector<std::uint8_t> unpack_runs(ByteReader& reader) const;
  void convert_row(const std::uint8_t* from, std::uint8_t* to) const;

  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
  std::size_t bits_ = 0;  // bits per pixel
  bool top_down_ = false, has_runs_ = false;
  std::array<std::uint32_t, 3> masks_{};  // masks of red, green and blue, for 16 and 32 bits
  std::array<Colour, 256> palette_{};     // used by up to 8 bits; missing colours are black
  std::size_t pixels_at_ = 0;             // the offset of the pixels
};

}  // namespace trainer::data
