// Reads image files, detects their formats and decodes them.
// Reasons: lib/decisions/data.md#image-decoders.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "data/decode/decoder.h"

namespace trainer::data {

struct ImageLimits {
  std::int64_t max_pixels = 100'000'000;
  std::int64_t max_file_size = 256 << 20;
};

// The longest side that is decoded. Besides the image, a decoder needs memory for a few rows,
// pointers to all rows, and weights for each pixel of a side, so that sides have a limit of their
// own.
inline constexpr int kMaxImageSide = 1'000'000;

// How a zip archive stores an image.
struct ZipPacking {
  bool is_deflated = false;
  std::int64_t size = 0;  // bytes of the image
  std::uint32_t crc = 0;
};

// An encoded image: a file, or a part of a file with many images.
struct StoredImage {
  Path path;
  std::int64_t offset = 0;
  std::int64_t bytes = -1;             // -1: the whole file
  std::string name = {};               // the name in a file with many images, for messages
  std::optional<ZipPacking> zip = {};  // set if the file is a zip archive

  StoredImage(Path file) : path(std::move(file)) {}  // NOLINT: a path is an image
  StoredImage(Path file, std::int64_t first, std::int64_t count)
      : path(std::move(file)), offset(first), bytes(count) {}

  // Returns the file, or the file and the name of the image in it.
  std::string describe() const {
    return name.empty() ? path.string() : path.string() + ": " + name;
  }
};

// Reads the bytes of an image, unpacks them and checks them. Throws DataError before reading if
// there are more than the limit.
void read_image_file(const StoredImage& image, const ImageLimits& limits,
                     std::vector<std::uint8_t>& bytes);

// Returns whether the first twelve bytes of a file are those of a supported image format. Returns
// false for formats that these bytes do not distinguish from text.
bool begins_like_image(std::span<const std::uint8_t> start);

// An image file in memory whose header has been read. The bytes of the file must outlive it.
class ImageFile {
 public:
  // Detects the format by the first bytes and reads the header; does not allocate memory for
  // pixels. `path` is for messages. Throws DataError with the format of the file and the reason.
  ImageFile(std::span<const std::uint8_t> file, const std::string& path, const ImageLimits& limits);

  // Height and width are those after rotation by the orientation.
  const ImageInfo& info() const { return info_; }
  // Decodes to 1 or 3 channels: a grey file has 1 channel, and a colour file is converted to grey
  // if `channels` is 1. Alpha is dropped. For other `channels` the file must have as many, with its
  // alpha: a grey PNG has 2 and a PNG or WebP in colour 4; or it must be a TIFF with as many bands.
  // `reduce` is 1, 2, 4 or 8: a JPEG is decoded at 1 / reduce of its size, rounded up; other
  // formats ignore it. Converts CMYK to RGB as Pillow does. `levels` gives the bytes of 16-bit
  // values; null: their upper bytes. Returns the warning of the decoder, "" for none. Throws
  // DataError for a damaged file or another number of bands, and leaves `out` undefined.
  std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels = nullptr);
  // Returns the largest value that decode() reads of a file with info().bits == 16. Throws
  // DataError.
  int find_max_value(int channels);

 private:
  // Throws DataError if the file, which is not a TIFF, does not have so many channels with alpha.
  void check_channels_with_alpha(int channels) const;

  std::string path_;
  std::unique_ptr<Decoder> decoder_;
  ImageInfo info_;
};

}  // namespace trainer::data
