// The decoders of image formats.
#pragma once

#include <memory>
#include <string>

#include "data/decode/image_info.h"
#include "data/decode/level_table.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// An image file in memory whose header has been read. The bytes of the file must outlive it. The
// functions that open one and all calls throw DataError for a damaged file.
class Decoder {
 public:
  Decoder(EncodedBytes file, const std::string& path, ImageKind kind) : file_(file), path_(path) {
    info_.kind = kind;
  }
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Height and width are those before rotation.
  const ImageInfo& info() const { return info_; }
  // Does what ImageFile::decode() does, but does not rotate the image, and may leave one in colour
  // that is to be grey. May be called once.
  virtual std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels) = 0;
  // Returns the largest value that decode() reads of a file with info().bits == 16.
  virtual int find_max_value(int channels);

 protected:
  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
};

// 1, 4, 8, 16, 24 or 32 bits per pixel, plain or run-length coded.
std::unique_ptr<Decoder> open_bmp(EncodedBytes file, const std::string& path);
// The first frame. A transparent pixel has the colour of its index in the palette, as in Pillow.
std::unique_ptr<Decoder> open_gif(EncodedBytes file, const std::string& path);
// Plain files with data/jpeg, other and damaged files with libjpeg, whose first warning that does
// not mean damage decode() returns.
std::unique_ptr<Decoder> open_jpeg(EncodedBytes file, const std::string& path);
// Verifies the checksums of all chunks. Of 16-bit alpha the upper byte is taken, and a colour that
// the file declares transparent has an alpha of 0. decode() returns the first warning of libpng.
std::unique_ptr<Decoder> open_png(EncodedBytes file, const std::string& path);
// P1 to P6. Numbers of another range are scaled to 0 to 255. In a PBM, 1 is black.
std::unique_ptr<Decoder> open_pnm(EncodedBytes file, const std::string& path);
// The first image of 1, 8 or 16 bits: grey, a palette, RGB, YCbCr or CMYK. Rejects signed and
// floating-point numbers and CMYK of 16 bits. Colours are divided by alpha if they were multiplied
// by it. Bands are read without a conversion. decode() returns the first warning of libtiff, or
// else the number of images if there are several.
std::unique_ptr<Decoder> open_tiff(EncodedBytes file, const std::string& path);
// The first frame of an animation is read, on black if it is smaller than the image.
std::unique_ptr<Decoder> open_webp(EncodedBytes file, const std::string& path);

}  // namespace trainer::data
