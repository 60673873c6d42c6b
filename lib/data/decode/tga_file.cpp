#include "data/decode/tga_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/decode/byte_reader.h"

namespace trainer::data {
namespace {

constexpr std::size_t kHeader = 18;

bool is_colour_depth(int bits) { return bits == 15 || bits == 16 || bits == 24 || bits == 32; }

std::array<std::uint8_t, 3> colour_of(const std::uint8_t* stored, std::size_t bytes) {
  if (bytes > 2) return {stored[2], stored[1], stored[0]};
  const int bits = stored[0] | stored[1] << 8;
  const auto scaled = [](int five) { return static_cast<std::uint8_t>((five & 31) * 255 / 31); };
  return {scaled(bits >> 10), scaled(bits >> 5), scaled(bits)};
}

// The stored pixels, runs repeated.
std::vector<std::uint8_t> unpack_runs(ByteReader& reader, std::size_t pixels, std::size_t bytes) {
  std::vector<std::uint8_t> out(pixels * bytes);
  for (std::size_t done = 0; done < pixels;) {
    const std::uint32_t packet = reader.u8("its pixels");
    const std::size_t count = (packet & 127) + 1;
    if (count > pixels - done) reader.fail("is damaged: a run goes beyond the last pixel");
    std::uint8_t* to = out.data() + done * bytes;
    if ((packet & 128) != 0) {
      const EncodedBytes pixel = reader.take(bytes, "its pixels");
      for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, pixel.data(), bytes);
    } else {
      const EncodedBytes run = reader.take(count * bytes, "its pixels");
      std::copy(run.begin(), run.end(), to);
    }
    done += count;
  }
  return out;
}

}  // namespace

bool is_tga(EncodedBytes file) {
  if (file.size() < kHeader) return false;
  const int type = file[2] & ~8, depth = file[16];
  const int width = file[12] | file[13] << 8, height = file[14] | file[15] << 8;
  if ((file[2] & ~11) != 0 || width < 1 || height < 1) return false;
  if (type == 1) {
    return file[1] == 1 && (file[7] == 8 || is_colour_depth(file[7])) &&
           (depth == 8 || depth == 16);
  }
  return file[1] <= 1 && (type == 2 || type == 3) && (depth == 8 || is_colour_depth(depth));
}

TgaFile::TgaFile(EncodedBytes file, const std::string& path) : file_(file), path_(path) {
  info_.kind = ImageKind::kTga;
  ByteReader reader(file, path, info_.kind);
  const EncodedBytes header = reader.take(kHeader, "the header");
  const int type = header[2] & ~8, depth = header[16], palette_depth = header[7];
  const std::size_t first = std::size_t{header[3]} | std::size_t{header[4]} << 8;
  const std::size_t colours = std::size_t{header[5]} | std::size_t{header[6]} << 8;
  info_.width = header[12] | header[13] << 8;
  info_.height = header[14] | header[15] << 8;
  has_palette_ = type == 1;
  has_runs_ = (header[2] & 8) != 0;
  right_to_left_ = (header[17] & 0x10) != 0;
  top_down_ = (header[17] & 0x20) != 0;
  pixel_bytes_ = static_cast<std::size_t>(depth + 7) / 8;
  const bool is_grey = type == 3 || (type == 2 && depth == 8);
  if (is_grey && depth != 8 && depth != 16)
    reader.fail(concat("has grey pixels of ", depth, " bits"));
  info_.channels = is_grey ? 1 : 3;
  reader.take(header[0], "its description");
  if (header[1] == 1) {
    const std::size_t bytes = static_cast<std::size_t>(palette_depth + 7) / 8;
    const EncodedBytes stored = reader.take(colours * bytes, "its palette");
    if (has_palette_ && bytes < 2) reader.fail("has a palette of 8 bits a colour");
    if (has_palette_) palette_.resize(first + colours);
    for (std::size_t i = 0; has_palette_ && i < colours; ++i) {
      palette_[first + i] = colour_of(stored.data() + i * bytes, bytes);
    }
  }
  pixels_at_ = reader.position();
  const auto pixels =
      static_cast<std::size_t>(info_.width) * static_cast<std::size_t>(info_.height);
  if (!has_runs_) reader.take(pixels * pixel_bytes_, "its pixels");
}

std::string TgaFile::decode(int, int, Pixels& out) const {
  ByteReader reader(file_, path_, info_.kind);
  reader.seek(pixels_at_, "its pixels");
  const auto width = static_cast<std::size_t>(info_.width);
  const auto height = static_cast<std::size_t>(info_.height);
  std::vector<std::uint8_t> unpacked;
  if (has_runs_) unpacked = unpack_runs(reader, width * height, pixel_bytes_);
  const std::uint8_t* from = has_runs_ ? unpacked.data() : file_.data() + pixels_at_;
  out.reset(info_.height, info_.width, info_.channels);
  for (std::size_t y = 0; y < height; ++y) {
    std::uint8_t* row = out.row(static_cast<int>(top_down_ ? y : height - 1 - y));
    for (std::size_t x = 0; x < width; ++x, from += pixel_bytes_) {
      const std::size_t place = right_to_left_ ? width - 1 - x : x;
      if (info_.channels == 1) {
        row[place] = from[0];
        continue;
      }
      Colour colour{};
      if (has_palette_) {
        const std::size_t index = pixel_bytes_ == 1 ? from[0] : from[0] | std::size_t{from[1]} << 8;
        if (index < palette_.size()) colour = palette_[index];
      } else {
        colour = colour_of(from, pixel_bytes_);
      }
      std::copy(colour.begin(), colour.end(), row + 3 * place);
    }
  }
  return "";
}

}  // namespace trainer::data
