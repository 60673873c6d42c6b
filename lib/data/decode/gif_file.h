// Reads GIF files with giflib.
#pragma once

#include <memory>
#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

struct GifSource;

// A GIF file whose header of the first frame has been read. The bytes of the file must outlive it.
class GifFile {
 public:
  // Throws DataError.
  GifFile(EncodedBytes file, const std::string& path);
  GifFile(GifFile&&) noexcept;
  GifFile& operator=(GifFile&&) noexcept;
  ~GifFile();
  const ImageInfo& info() const { return info_; }
  // Decodes the first frame; may be called once. A transparent pixel has the colour of its index in
  // the palette, as in Pillow. Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out);

 private:
  std::string path_;
  ImageInfo info_;
  std::unique_ptr<GifSource> source_;
};

}  // namespace trainer::data
