#include "data/decode/pnm_file.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "data/decode/byte_reader.h"

namespace trainer::data {
namespace {

bool is_space(std::uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// A number of the header and the one white space behind it; comments before it are skipped.
int header_number(ByteReader& reader, int most, const char* what) {
  std::uint32_t c = reader.u8("the header");
  while (is_space(c) || c == '#') {
    if (c == '#') {
      do {
        c = reader.u8("the header");
      } while (c != '\n' && c != '\r');
    }
    c = reader.u8("the header");
  }
  if (c < '0' || c > '9') reader.fail(concat("the header's ", what, " is not a number"));
  std::int64_t value = 0;  // holds ten times `most`
  for (; c >= '0' && c <= '9'; c = reader.u8("the header")) {
    value = value * 10 + (c - '0');
    if (value > most) reader.fail(concat("the header's ", what, " is more than ", most));
  }
  if (!is_space(c)) reader.fail(concat("the header's ", what, " is not a number"));
  return static_cast<int>(value);
}

}  // namespace

PnmFile::PnmFile(EncodedBytes file, const std::string& path) {
  constexpr int kMostSide = 1 << 28;
  info_.kind = ImageKind::kPnm;
  ByteReader reader(file, path, info_.kind);
  info_.channels = reader.take(2, "the header")[1] == '6' ? 3 : 1;
  info_.width = header_number(reader, kMostSide, "width");
  info_.height = header_number(reader, kMostSide, "height");
  most_ = header_number(reader, 65535, "largest value");
  if (most_ < 1) reader.fail("the header's largest value is 0");
  const auto pixels =
      static_cast<std::size_t>(info_.width) * static_cast<std::size_t>(info_.height);
  numbers_ = reader.take(pixels * static_cast<std::size_t>(info_.channels * (most_ > 255 ? 2 : 1)),
                         "its pixels");
}

std::string PnmFile::decode(int, int, Pixels& out) const {
  out.reset(info_.height, info_.width, info_.channels);
  if (most_ == 255) {
    std::copy(numbers_.begin(), numbers_.end(), out.data());
    return "";
  }
  std::vector<std::uint8_t> scaled(most_ > 255 ? 65536 : 256, 255);
  for (int i = 0; i < most_; ++i) {
    scaled[static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>(std::nearbyint(static_cast<double>(i) / most_ * 255));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t value =
        most_ > 255 ? std::size_t{numbers_[2 * i]} << 8 | numbers_[2 * i + 1] : numbers_[i];
    out.data()[i] = scaled[value];
  }
  return "";
}

}  // namespace trainer::data
