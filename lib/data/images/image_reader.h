// Image files to pixels of one size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "config/config.h"
#include "data/decode/image_file.h"
#include "data/images/resize/resize.h"

namespace trainer::data {

// Reads, decodes and resizes image files as the `data` section of a config says. Cheap to copy; any
// number of threads.
class ImageReader {
 public:
  explicit ImageReader(const config::Data& data);

  int height() const { return height_; }
  int width() const { return width_; }
  int channels() const { return channels_; }
  std::size_t image_bytes() const { return static_cast<std::size_t>(height_ * width_ * channels_); }
  // The settings that decide the pixels, for fingerprints.
  std::string recipe() const;
  // The settings that decide whether a file can be read.
  std::string limits() const;

  // Which part of a file's image, [height, width], is wanted at which size.
  using Cut = std::function<Geometry(int height, int width)>;
  // The cut of data.fit.
  Geometry fit(int height, int width) const;

  struct Decoded {
    const Pixels& pixels;  // valid until the next call of the same thread
    Geometry geometry;     // the cut, on these pixels
    std::string warning;   // of the decoder; begins with the file
    int reduce = 1;        // the pixels are those of the file at 1 / reduce
  };
  enum class Scale {
    kFull,
    kEnough,  // a JPEG at 1/2, 1/4 or 1/8 where that is enough for the cut (data.scaled_decode)
  };
  // Throws DataError naming the file.
  Decoded decode(const StoredImage& image, const Cut& cut, Scale scale) const;
  // Cuts and resizes to `out`, image_bytes() long. A grey image is repeated for three channels.
  void resize(const Pixels& image, const Geometry& geometry, std::uint8_t* out) const;

 private:
  ImageLimits limits_;
  int height_, width_, channels_;
  config::Interpolation interpolation_;
  bool antialias_;
  config::Fit fit_;
  double crop_fraction_;
  bool scaled_decode_;
};

}  // namespace trainer::data
