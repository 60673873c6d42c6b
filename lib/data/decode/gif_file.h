// GIF files, by giflib.
#pragma once

#include <memory>
#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

struct GifSource;

// A GIF whose first frame's header has been read. Refers to the bytes that it was made of.
class GifFile {
 public:
  // Throws DataError.
  GifFile(EncodedBytes file, const std::string& path);
  GifFile(GifFile&&) noexcept;
  GifFile& operator=(GifFile&&) noexcept;
  ~GifFile();
  const ImageInfo& info() const { return info_; }
  // The first frame, once. A transparent pixel has the colour that its index has in the palette, as
  // in Pillow. Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out);

 private:
  std::string path_;
  ImageInfo info_;
  std::unique_ptr<GifSource> source_;
};

}  // namespace trainer::data
