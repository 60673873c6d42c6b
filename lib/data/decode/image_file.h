// Image files: reading, telling the kind, decoding.
// Reasons: lib/decisions/data.md#image-decoders.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/files.h"
#include "data/decode/bmp_file.h"
#include "data/decode/gif_file.h"
#include "data/decode/jpeg_file.h"
#include "data/decode/pixels.h"
#include "data/decode/png_file.h"
#include "data/decode/pnm_file.h"
#include "data/decode/tiff_file.h"
#include "data/decode/webp_file.h"

namespace trainer::data {

struct ImageLimits {
  std::int64_t max_pixels = 100'000'000;
  std::int64_t max_file_size = 256 << 20;
};

// The longest side that is decoded. A decoder holds a few rows, pointers to all rows and weights
// for each pixel of a side beside the image, so that sides need a limit of their own.
inline constexpr int kMaxImageSide = 1'000'000;

// An encoded image: a file, or a part of one that holds many.
struct StoredImage {
  Path path;
  std::int64_t offset = 0;
  std::int64_t bytes = -1;  // the whole file

  StoredImage(Path file) : path(std::move(file)) {}  // NOLINT: a path is an image
  StoredImage(Path file, std::int64_t first, std::int64_t count)
      : path(std::move(file)), offset(first), bytes(count) {}
};

// Reads its bytes. Throws DataError when it is larger than the limit, before reading it.
void read_image_file(const StoredImage& image, const ImageLimits& limits,
                     std::vector<std::uint8_t>& bytes);

// Whether the first twelve bytes of a file are those of an image that is read. False for kinds that
// these do not tell from a text.
bool begins_like_image(std::span<const std::uint8_t> start);

// An image file in memory whose header has been read. Refers to the bytes that it was made of.
class ImageFile {
 public:
  // Tells the kind by the first bytes and reads the header; takes no memory for pixels. `path` is
  // used in messages. Throws DataError that says what the file is and what is wrong with it.
  ImageFile(std::span<const std::uint8_t> file, const std::string& path, const ImageLimits& limits);

  // Height and width are those after turning the image by its orientation.
  const ImageInfo& info() const { return info_; }
  // Decodes to 1 or 3 channels: a grey file stays at 1, a colour file becomes grey when `channels`
  // is 1. `reduce` is 1, 2, 4 or 8: a JPEG is decoded at that fraction of its size, rounded up;
  // other kinds ignore it. Alpha is dropped, CMYK becomes RGB as in Pillow. Returns what the
  // decoder warned of, "" mostly. Throws DataError for a damaged file; `out` is undefined then.
  std::string decode(int channels, int reduce, Pixels& out);

 private:
  // A closed set: std::visit in decode() asks every kind for the same functions.
  using Kind = std::variant<JpegFile, PngFile, GifFile, BmpFile, PnmFile, WebpFile, TiffFile>;
  static Kind open(std::span<const std::uint8_t> file, const std::string& path);

  Kind kind_;
  ImageInfo info_;
};

}  // namespace trainer::data
