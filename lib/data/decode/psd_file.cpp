#include "data/decode/psd_file.h"

#include "base/error.h"
#include "data/decode/byte_reader.h"

namespace trainer::data {
namespace {

// One row of PackBits, which must fill `row`.
void unpack_row(ByteReader& reader, EncodedBytes packed, std::vector<std::uint8_t>& row) {
  std::size_t at = 0, done = 0;
  while (done < row.size() && at < packed.size()) {
    const std::size_t code = packed[at++];
    if (code == 128) continue;
    const bool repeats = code > 128;
    const std::size_t count = repeats ? 257 - code : code + 1;
    if (count > row.size() - done || (repeats ? 1 : count) > packed.size() - at) {
      reader.fail("is damaged: a row is packed wrongly");
    }
    for (std::size_t i = 0; i < count; ++i) row[done++] = packed[repeats ? at : at + i];
    at += repeats ? 1 : count;
  }
  if (done < row.size()) reader.fail("is damaged: a row ends before its last pixel");
}

}  // namespace

PsdFile::PsdFile(EncodedBytes file, const std::string& path) : file_(file), path_(path) {
  constexpr std::uint32_t kMostSide = 30000, kRgb = 3;
  info_.kind = ImageKind::kPsd;
  info_.channels = 3;
  ByteReader reader(file, path, info_.kind);
  reader.take(4, "the header");
  if (reader.u16_big("the header") != 1) reader.fail("is of an unknown version");
  reader.take(6, "the header");
  planes_ = reader.u16_big("the header");
  const std::uint32_t height = reader.u32_big("the header"), width = reader.u32_big("the header");
  const std::uint32_t depth = reader.u16_big("the header"), mode = reader.u16_big("the header");
  if (depth != 8 && depth != 16)
    reader.fail(concat("has ", depth, " bits a number; 8 and 16 are read"));
  if (mode != kRgb || planes_ < 3 || planes_ > 56) {
    reader.fail("is not RGB; save it so, or convert it to PNG");
  }
  if (height > kMostSide || width > kMostSide) reader.fail("is larger than the format allows");
  info_.height = static_cast<int>(height);
  info_.width = static_cast<int>(width);
  number_bytes_ = depth / 8;
  for (const char* section : {"the colour data", "the resources", "the layers"}) {
    const std::size_t bytes = reader.u32_big(section);
    reader.take(bytes, section);
  }
  const std::uint32_t packing = reader.u16_big("its pixels");
  if (packing > 1) reader.fail("is packed in a way that is not read; convert it to PNG");
  packed_ = packing == 1;
  planes_at_ = reader.position();
  const std::size_t row = width * number_bytes_;
  reader.take(planes_ * height * (packed_ ? 2 : row), "its pixels");
}

std::string PsdFile::decode(int, int, Pixels& out) const {
  ByteReader reader(file_, path_, info_.kind);
  reader.seek(planes_at_, "its pixels");
  const auto height = static_cast<std::size_t>(info_.height);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(info_.width) * number_bytes_);
  std::vector<std::size_t> lengths(planes_ * height, row.size());  // of the stored rows
  for (std::size_t i = 0; packed_ && i < lengths.size(); ++i) {
    lengths[i] = reader.u16_big("its pixels");
  }
  out.reset(info_.height, info_.width, 3);
  for (std::size_t plane = 0; plane < 3; ++plane) {
    for (std::size_t y = 0; y < height; ++y) {
      const EncodedBytes stored = reader.take(lengths[plane * height + y], "its pixels");
      if (packed_) unpack_row(reader, stored, row);
      const std::uint8_t* from = packed_ ? row.data() : stored.data();
      std::uint8_t* to = out.row(static_cast<int>(y)) + plane;
      for (std::size_t x = 0; x < static_cast<std::size_t>(info_.width); ++x, to += 3) {
        *to = from[x * number_bytes_];  // the high byte
      }
    }
  }
  for (std::size_t i = 3 * height; i < lengths.size(); ++i) reader.take(lengths[i], "its pixels");
  return "";
}

}  // namespace trainer::data
