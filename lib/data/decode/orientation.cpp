// Finds the EXIF orientation, and rotates images by it.

#include <cstring>
#include <optional>
#include <string_view>

#include "data/decode/pixels.h"

namespace trainer::data {
namespace {

// Reads the numbers of a TIFF block in either byte order; they are 0 beyond its end.
class Tiff {
 public:
  explicit Tiff(std::span<const std::uint8_t> bytes)
      : bytes_(bytes), big_(bytes.size() > 1 && bytes[0] == 'M') {}
  std::uint32_t number(std::size_t at, std::size_t size) const {
    if (at + size > bytes_.size()) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value = value << 8 | bytes_[at + (big_ ? i : size - 1 - i)];
    }
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool big_;
};

constexpr std::uint32_t kOrientationTag = 0x0112, kShort = 3;

}  // namespace

void JpegOrientation::add(std::span<const std::uint8_t> app1) {
  constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
  const std::string_view text(reinterpret_cast<const char*>(app1.data()), app1.size());
  if (text.starts_with(kExif) && !exif_) {
    exif_ = tiff_orientation(app1.subspan(kExif.size()));
  } else if (text.starts_with(kXmp) && !xmp_) {
    xmp_ = xmp_orientation(app1.subspan(kXmp.size()));
  }
}

std::optional<int> tiff_orientation(std::span<const std::uint8_t> block) {
  if (block.size() < 8) return std::nullopt;
  if (std::memcmp(block.data(), "II*\0", 4) != 0 && std::memcmp(block.data(), "MM\0*", 4) != 0) {
    return std::nullopt;
  }
  const Tiff tiff(block);
  const std::size_t directory = tiff.number(4, 4);
  const std::uint32_t entries = tiff.number(directory, 2);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    if (entry + 12 > block.size()) return std::nullopt;
    if (tiff.number(entry, 2) != kOrientationTag) continue;
    const std::uint32_t value = tiff.number(entry + 2, 2) == kShort ? tiff.number(entry + 8, 2) : 1;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return std::nullopt;
}

int xmp_orientation(std::span<const std::uint8_t> packet) {
  constexpr std::string_view kName = "tiff:Orientation";
  const std::string_view text(reinterpret_cast<const char*>(packet.data()), packet.size());
  for (std::size_t at = text.find(kName); at != std::string_view::npos;
       at = text.find(kName, at + 1)) {
    // An attribute, tiff:Orientation="6", or an element, <tiff:Orientation>6<.
    std::string_view rest = text.substr(at + kName.size());
    if (rest.starts_with("=\"") || rest.starts_with("='")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with('>')) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '1' && rest[0] <= '8') return rest[0] - '0';
  }
  return 1;
}

MirroredAxes mirrored_axes(int orientation) {
  return {orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8,
          orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7};
}

void orient(Pixels& image, int orientation) {
  if (orientation < 2 || orientation > 8) return;
  // Orientations 5 to 8 swap the axes: the stored rows become columns.
  const bool swap = orientation >= 5;
  const MirroredAxes mirrored = mirrored_axes(orientation);
  const bool flip_y = swap ? mirrored.horizontal : mirrored.vertical;
  const bool flip_x = swap ? mirrored.vertical : mirrored.horizontal;
  const int channels = image.channels();
  Pixels turned(swap ? image.width() : image.height(), swap ? image.height() : image.width(),
                channels);
  for (int y = 0; y < turned.height(); ++y) {
    std::uint8_t* to = turned.row(y);
    for (int x = 0; x < turned.width(); ++x, to += channels) {
      int from_y = swap ? x : y, from_x = swap ? y : x;
      if (flip_x) from_x = image.width() - 1 - from_x;
      if (flip_y) from_y = image.height() - 1 - from_y;
      std::memcpy(to, image.row(from_y) + std::size_t(from_x) * std::size_t(channels),
                  std::size_t(channels));
    }
  }
  image = std::move(turned);
}

}  // namespace trainer::data
