// Decoded images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace trainer::data {

// Packed pixels, row by row. Memory of up to kMaxKeptBytes is kept for a smaller image.
class Pixels {
 public:
  static constexpr std::size_t kMaxKeptBytes = 64 << 20;
  Pixels() = default;
  Pixels(int height, int width, int channels) { reset(height, width, channels); }
  // The content is undefined afterwards.
  void reset(int height, int width, int channels);
  int height() const { return height_; }
  int width() const { return width_; }
  int channels() const { return channels_; }
  std::size_t row_bytes() const { return static_cast<std::size_t>(width_) * channel_count(); }
  std::size_t size() const { return row_bytes() * static_cast<std::size_t>(height_); }
  // Returns the size of the memory in bytes.
  std::size_t capacity() const { return capacity_; }
  std::uint8_t* data() { return memory_.get(); }
  const std::uint8_t* data() const { return memory_.get(); }
  std::uint8_t* row(int y) { return data() + static_cast<std::size_t>(y) * row_bytes(); }
  const std::uint8_t* row(int y) const {
    return data() + static_cast<std::size_t>(y) * row_bytes();
  }

 private:
  std::size_t channel_count() const { return channels_; }
  std::unique_ptr<std::uint8_t[]> memory_;
  std::size_t capacity_ = 0;
  int height_ = 0, width_ = 0, channels_ = 0;
};

// Returns the ITU-R 601 luma as Pillow computes it.
inline std::uint8_t luma(int red, int green, int blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

// Rotates and mirrors the image by an EXIF orientation, 1 to 8; does nothing for other numbers.
void orient(Pixels& image, int orientation);
// The axes of an oriented image that run against those of the stored image.
struct MirroredAxes {
  bool vertical = false, horizontal = false;
};
MirroredAxes mirrored_axes(int orientation);
// Returns the EXIF orientation of a TIFF block, as PNG (eXIf) and WebP (EXIF) files contain it;
// nothing if it lacks the tag, so that the orientation of XMP counts.
std::optional<int> tiff_orientation(std::span<const std::uint8_t> block);
// Returns the orientation of an XMP packet (tiff:Orientation), 1 if it has none.
int xmp_orientation(std::span<const std::uint8_t> packet);

// The orientation of a JPEG file, of whose APP1 markers one may hold EXIF and one XMP. As in
// Pillow, XMP counts only if EXIF has none.
class JpegOrientation {
 public:
  // Takes the content of an APP1 marker.
  void add(std::span<const std::uint8_t> app1);
  int value() const { return exif_.value_or(xmp_.value_or(1)); }

 private:
  std::optional<int> exif_, xmp_;  // values of the first marker that has one
};

}  // namespace trainer::data
