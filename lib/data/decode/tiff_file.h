// Reads TIFF files with libtiff.
#pragma once

#include <memory>
#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

struct TiffSource;

// The first image of a TIFF file whose directory has been read. The bytes of the file must outlive
// it.
class TiffFile {
 public:
  // Throws DataError, also for unsupported samples: several bands, signed or floating-point
  // numbers, CMYK of 16 bits.
  TiffFile(EncodedBytes file, const std::string& path);
  TiffFile(TiffFile&&) noexcept;
  TiffFile& operator=(TiffFile&&) noexcept;
  ~TiffFile();
  // Height and width are those before rotation.
  const ImageInfo& info() const { return info_; }
  // Decodes 1, 8 or 16 bits, converted to 8: grey, a palette, RGB, YCbCr or CMYK. Colours are
  // divided by alpha if they were multiplied by it, and alpha is dropped. Returns the first warning
  // of libtiff, "" for none. Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out);

 private:
  std::string path_;
  ImageInfo info_;
  std::unique_ptr<TiffSource> source_;
};

}  // namespace trainer::data
