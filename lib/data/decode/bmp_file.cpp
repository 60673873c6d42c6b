// Reads bitmaps of Windows and OS/2.
// https://learn.microsoft.com/en-us/windows/win32/gdi/bitmap-storage
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/error.h"
#include "data/decode/byte_reader.h"
#include "data/decode/decoder.h"

namespace trainer::data {
namespace {

constexpr std::size_t kFileHeader = 14;
constexpr std::uint32_t kPlain = 0, kRuns8 = 1, kRuns4 = 2, kMasks = 3, kMasksAndAlpha = 6;

std::uint8_t masked(std::uint32_t pixel, std::uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = std::countr_zero(mask);
  return static_cast<std::uint8_t>(std::uint64_t{(pixel & mask) >> shift} * 255 / (mask >> shift));
}

class BmpFile final : public Decoder {
 public:
  BmpFile(EncodedBytes file, const std::string& path);
  std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels) override;

 private:
  using Colour = std::array<std::uint8_t, 3>;

  void read_header(ByteReader& reader);
  void read_masks(ByteReader& reader);
  void read_palette(ByteReader& reader, std::size_t colours, std::size_t bytes);
  std::size_t row_bytes() const;
  // Returns a byte per index, the stored rows one after the other.
  std::vector<std::uint8_t> unpack_runs(ByteReader& reader) const;
  void convert_row(const std::uint8_t* from, std::uint8_t* to) const;

  std::size_t bits_ = 0;  // bits per pixel
  bool top_down_ = false, has_runs_ = false;
  std::array<std::uint32_t, 3> masks_{};  // masks of red, green and blue, for 16 and 32 bits
  std::array<Colour, 256> palette_{};     // used by up to 8 bits; missing colours are black
  std::size_t pixels_at_ = 0;             // the offset of the pixels
};

BmpFile::BmpFile(EncodedBytes file, const std::string& path)
    : Decoder(file, path, ImageKind::kBmp) {
  info_.channels = 3;
  ByteReader reader(file, path, info_.kind);
  read_header(reader);
  if (has_runs_) return;
  // The padding of the last row may be left out.
  const std::size_t height = info_.height;
  const std::size_t last = (static_cast<std::size_t>(info_.width) * bits_ + 7) / 8;
  reader.seek(pixels_at_, "its pixels");
  if (height > 0) reader.take((height - 1) * row_bytes() + last, "its pixels");
}

void BmpFile::read_header(ByteReader& reader) {
  constexpr std::uint32_t kOs2 = 12, kMinHeader = 16, kMaxHeader = 124;
  reader.take(10, "the header");
  pixels_at_ = reader.u32_little("the header");
  const std::uint32_t size = reader.u32_little("the header");
  std::uint32_t compression = kPlain, colours = 0;
  if (size == kOs2) {
    info_.width = static_cast<int>(reader.u16_little("the header"));
    info_.height = static_cast<int>(reader.u16_little("the header"));
    reader.u16_little("the header");
    bits_ = reader.u16_little("the header");
  } else if (size >= kMinHeader && size <= kMaxHeader) {
    const auto width = static_cast<std::int32_t>(reader.u32_little("the header"));
    const auto height = static_cast<std::int32_t>(reader.u32_little("the header"));
    if (width < 0 || height == INT32_MIN) reader.fail("the header gives a negative width");
    info_.width = width;
    info_.height = height < 0 ? -height : height;
    top_down_ = height < 0;
    reader.u16_little("the header");
    bits_ = reader.u16_little("the header");
    if (size >= 40) {
      compression = reader.u32_little("the header");
      reader.take(12, "the header");
      colours = reader.u32_little("the header");
      reader.u32_little("the header");
    }
  } else {
    reader.fail(concat("has a header of ", size, " bytes, which is not supported"));
  }
  const bool is_os2_v2 = size == 16 || size == 64;
  const bool masks = (compression == kMasks || compression == kMasksAndAlpha) && !is_os2_v2;
  has_runs_ = (compression == kRuns8 && bits_ == 8) || (compression == kRuns4 && bits_ == 4);
  if (compression != kPlain && !has_runs_ && !(masks && (bits_ == 16 || bits_ == 32))) {
    reader.fail(concat("uses compression ", compression, " with ", bits_,
                       " bits per pixel, which is not supported; convert it to PNG"));
  }
  if (bits_ != 1 && bits_ != 4 && bits_ != 8 && bits_ != 16 && bits_ != 24 && bits_ != 32) {
    reader.fail(
        concat("has ", bits_, " bits per pixel, which is not supported; convert it to PNG"));
  }
  masks_ = bits_ == 16 ? std::array<std::uint32_t, 3>{0x7C00, 0x3E0, 0x1F}
                       : std::array<std::uint32_t, 3>{0xFF0000, 0xFF00, 0xFF};
  if (masks) read_masks(reader);
  reader.seek(std::max(reader.position(), kFileHeader + size), "its palette");
  // Some writers give 0, or the end of the header, where the palette begins.
  const bool is_wrong = pixels_at_ == 0 || (bits_ <= 8 && pixels_at_ <= reader.position());
  if (bits_ <= 8) {
    const std::size_t max_colours = std::size_t{1} << bits_;
    read_palette(reader, colours == 0 ? max_colours : std::min<std::size_t>(colours, max_colours),
                 size == kOs2 ? 3 : 4);
  }
  if (is_wrong) pixels_at_ = reader.position();
}

// The masks follow the first 40 bytes of a header of any length.
void BmpFile::read_masks(ByteReader& reader) {
  for (std::uint32_t& mask : masks_) {
    mask = reader.u32_little("the header");
    const std::uint32_t run = mask == 0 ? 0 : mask >> std::countr_zero(mask);
    if ((run & (run + 1)) != 0) reader.fail("the header's colour masks have holes");
  }
}

void BmpFile::read_palette(ByteReader& reader, std::size_t colours, std::size_t bytes) {
  // A short palette ends where the pixels begin.
  if (pixels_at_ > reader.position()) {
    colours = std::min(colours, (pixels_at_ - reader.position()) / bytes);
  }
  const EncodedBytes stored = reader.take(colours * bytes, "its palette");
  for (std::size_t i = 0; i < colours; ++i) {
    const std::uint8_t* entry = stored.data() + i * bytes;
    palette_[i] = {entry[2], entry[1], entry[0]};
  }
}

std::size_t BmpFile::row_bytes() const {
  return (static_cast<std::size_t>(info_.width) * bits_ + 31) / 32 * 4;
}

std::vector<std::uint8_t> BmpFile::unpack_runs(ByteReader& reader) const {
  const std::size_t width = info_.width;
  const std::size_t height = info_.height;
  std::vector<std::uint8_t> out(width * height);
  std::size_t x = 0, y = 0;
  // Pixels beyond the end of a row are dropped.
  const auto put = [&](std::size_t index) {
    if (x < width) out[y * width + x++] = static_cast<std::uint8_t>(index);
  };
  const bool nibbles = bits_ == 4;
  while (y < height) {
    const std::size_t count = reader.u8("its pixels"), value = reader.u8("its pixels");
    if (count > 0) {
      for (std::size_t i = 0; i < count; ++i) {
        put(nibbles ? (i % 2 == 0 ? value >> 4 : value & 15) : value);
      }
    } else if (value == 0) {
      x = 0;
      ++y;
    } else if (value == 1) {
      break;
    } else if (value == 2) {
      x = std::min(width, x + reader.u8("its pixels"));
      y += reader.u8("its pixels");
    } else {
      const std::size_t bytes = nibbles ? (value + 1) / 2 : value;
      const EncodedBytes stored = reader.take(bytes, "its pixels");
      for (std::size_t i = 0; i < value; ++i) {
        put(nibbles ? (i % 2 == 0 ? stored[i / 2] >> 4 : stored[i / 2] & 15) : stored[i]);
      }
      if (bytes % 2 == 1) reader.u8("its pixels");
    }
  }
  if (y * width + x < width * height && !(y + 1 == height && x == width)) {
    reader.fail(concat("is damaged: its pixels end in row ", y + 1, " of ", height));
  }
  return out;
}

void BmpFile::convert_row(const std::uint8_t* from, std::uint8_t* to) const {
  const std::size_t width = info_.width;
  for (std::size_t x = 0; x < width; ++x, to += 3) {
    if (bits_ <= 8) {
      const std::size_t bit = x * bits_;
      const std::size_t index =
          (std::size_t{from[bit / 8]} >> (8 - bits_ - bit % 8)) & ((std::size_t{1} << bits_) - 1);
      std::ranges::copy(palette_[index], to);
    } else if (bits_ == 24) {
      const std::uint8_t* pixel = from + 3 * x;
      to[0] = pixel[2];
      to[1] = pixel[1];
      to[2] = pixel[0];
    } else {
      std::uint32_t pixel = 0;
      for (std::size_t i = bits_ / 8; i-- > 0;) pixel = pixel << 8 | from[x * bits_ / 8 + i];
      for (std::size_t c = 0; c < 3; ++c) to[c] = masked(pixel, masks_[c]);
    }
  }
}

std::string BmpFile::decode(int, int, Pixels& out, const LevelTable*) {
  ByteReader reader(file_, path_, info_.kind);
  reader.seek(pixels_at_, "its pixels");
  const std::size_t width = info_.width;
  const std::size_t height = info_.height;
  std::vector<std::uint8_t> indices;
  if (has_runs_) indices = unpack_runs(reader);
  out.reset(info_.height, info_.width, 3);
  for (std::size_t y = 0; y < height; ++y) {
    std::uint8_t* to = out.row(static_cast<int>(top_down_ ? y : height - 1 - y));
    if (!has_runs_) {
      convert_row(file_.data() + pixels_at_ + y * row_bytes(), to);
      continue;
    }
    for (std::size_t x = 0; x < width; ++x) {
      const Colour& colour = palette_[indices[y * width + x]];
      std::ranges::copy(colour, to + 3 * x);
    }
  }
  return "";
}

}  // namespace

std::unique_ptr<Decoder> open_bmp(EncodedBytes file, const std::string& path) {
  return std::make_unique<BmpFile>(file, path);
}

}  // namespace trainer::data
