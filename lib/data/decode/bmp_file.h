// Windows and OS/2 bitmaps.
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

// A BMP of 1, 4, 8, 16, 24 or 32 bits a pixel, plain or run-length coded, whose header has been
// read. Refers to the bytes that it was made of.
class BmpFile {
 public:
  // Throws DataError, also when the file is shorter than its plain pixels.
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
  // A byte an index, the stored rows one after the other.
  std::vector<std::uint8_t> unpack_runs(ByteReader& reader) const;
  void convert_row(const std::uint8_t* from, std::uint8_t* to) const;

  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
  std::size_t bits_ = 0;  // a pixel
  bool top_down_ = false, has_runs_ = false;
  std::array<std::uint32_t, 3> masks_{};  // of red, green and blue, for 16 and 32 bits
  std::array<Colour, 256> palette_{};     // up to 8 bits; what the file does not give is black
  std::size_t pixels_at_ = 0;             // where they begin
};

}  // namespace trainer::data
