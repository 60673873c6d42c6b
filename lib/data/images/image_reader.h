// Reads image files as pixels of one size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "config/sections/data.h"
#include "data/decode/image_file.h"
#include "data/images/resize/resize.h"

namespace trainer::data {

// Reads, decodes and resizes image files by the `data` section of a config. Cheap to copy and
// thread-safe.
class ImageReader {
 public:
  // Throws ConfigError for a data.range of `auto` that was not resolved.
  explicit ImageReader(const config::Data& data);

  int height() const { return height_; }
  int width() const { return width_; }
  int channels() const { return channels_; }
  std::size_t image_bytes() const { return height_ * width_ * channels_; }
  // Returns the settings that decide the pixels, for fingerprints.
  std::string recipe() const;
  // Returns the settings that decide whether a file can be read.
  std::string limits() const;

  // Returns the part of an image [height, width] that is needed, and its size after resizing.
  using Cut = std::function<Geometry(int height, int width)>;

  struct Decoded {
    const Pixels& pixels;  // valid until the next call of the same thread
    Geometry geometry;     // the cut of these pixels
    std::string warning;   // the warning of the decoder, which begins with the path; "" for none
    int reduce = 1;        // the pixels have 1 / reduce of the size of the image
  };
  enum class Scale {
    kFull,
    // A JPEG at 1/2, 1/4 or 1/8 if the cut needs no more (data.scaled_decode), which takes a
    // fraction of the time.
    kReduced,
  };
  // Throws DataError with the path.
  Decoded decode(const StoredImage& image, const Cut& cut, Scale scale) const;
  // Decodes with the cut of data.fit.
  Decoded decode(const StoredImage& image, Scale scale) const;
  // The same for the bytes of a file, which `path` names in messages.
  Decoded decode(std::span<const std::uint8_t> file, const std::string& path, Scale scale) const;
  // Cuts and resizes to `out`, image_bytes() long. The values of a grey image are repeated for
  // three channels. An image that does not fill `out` is centred between black borders, as by
  // Pillow's ImageOps.pad.
  void resize(const Pixels& image, const Geometry& geometry, std::uint8_t* out) const;
  // Returns the cut of data.fit.
  Geometry fit(int height, int width) const;

 private:
  Decoded decode_bytes(std::span<const std::uint8_t> file, const std::string& path, const Cut& cut,
                       Scale scale) const;
  // Writes the image without borders.
  void resize_part(const Pixels& image, const Geometry& geometry, std::uint8_t* out) const;

  ImageLimits limits_;
  int height_, width_, channels_;
  config::Interpolation interpolation_;
  bool antialias_;
  config::Fit fit_;
  double crop_fraction_;
  bool scaled_decode_;
  std::string range_;  // the range of 16-bit values for recipe(); "" for none
  std::shared_ptr<const LevelTable> levels_;  // null: their upper bytes
};

}  // namespace trainer::data
