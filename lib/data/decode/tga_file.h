// Truevision TGA files.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// Whether the bytes may be a TGA: it has no magic bytes, only a header that is plausible.
bool is_tga(EncodedBytes file);

// A TGA whose header has been read: grey, colour or with a palette, plain or run-length coded.
// Refers to the bytes that it was made of.
class TgaFile {
 public:
  // Throws DataError.
  TgaFile(EncodedBytes file, const std::string& path);
  const ImageInfo& info() const { return info_; }
  // Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out) const;

 private:
  using Colour = std::array<std::uint8_t, 3>;

  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
  bool has_palette_ = false, has_runs_ = false, right_to_left_ = false, top_down_ = false;
  std::size_t pixel_bytes_ = 0;  // as stored
  std::size_t pixels_at_ = 0;    // where they begin
  std::vector<Colour> palette_;  // entries before the first one given are black
};

}  // namespace trainer::data
