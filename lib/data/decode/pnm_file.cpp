// Reads PBM, PGM and PPM files, binary and plain. https://netpbm.sourceforge.net/doc/pnm.html
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "data/decode/byte_reader.h"
#include "data/decode/decoder.h"

namespace trainer::data {
namespace {

bool is_space(std::uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Reads a number of the header and one white space behind it; skips comments before it.
int header_number(ByteReader& reader, int max, const char* what) {
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
  std::int64_t value = 0;  // has 64 bits, which hold ten times `max`
  for (; c >= '0' && c <= '9'; c = reader.u8("the header")) {
    value = value * 10 + (c - '0');
    if (value > max) reader.fail(concat("the header's ", what, " is more than ", max));
  }
  if (!is_space(c)) reader.fail(concat("the header's ", what, " is not a number"));
  return static_cast<int>(value);
}

// Returns a table that scales numbers from 0 to `max` to 0 to 255, and larger numbers to 255.
std::vector<std::uint8_t> scale_to_bytes(int max) {
  std::vector<std::uint8_t> scaled(max > 255 ? 65536 : 256, 255);
  for (int i = 0; i < max; ++i) {
    scaled[i] = static_cast<std::uint8_t>(std::nearbyint(static_cast<double>(i) / max * 255));
  }
  return scaled;
}

class PnmFile final : public Decoder {
 public:
  PnmFile(EncodedBytes file, const std::string& path);
  std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels) override;

 private:
  enum class Coding { kBytes, kBits, kText, kTextBits };
  void decode_text(Pixels& out) const;

  Coding coding_ = Coding::kBytes;
  int max_value_ = 255;   // the number that stands for white
  EncodedBytes numbers_;  // kBytes: of one byte, or two (big-endian) if `max_value_` is above 255
};

PnmFile::PnmFile(EncodedBytes file, const std::string& path)
    : Decoder(file, path, ImageKind::kPnm) {
  constexpr int kMaxSide = 1 << 28;
  ByteReader reader(file, path, info_.kind);
  const char type = static_cast<char>(reader.take(2, "the header")[1]);
  const bool has_bits = type == '1' || type == '4';
  info_.channels = type == '3' || type == '6' ? 3 : 1;
  info_.width = header_number(reader, kMaxSide, "width");
  info_.height = header_number(reader, kMaxSide, "height");
  max_value_ = has_bits ? 1 : header_number(reader, 65535, "largest value");
  if (max_value_ < 1) reader.fail("the header's largest value is 0");
  const std::size_t width = info_.width;
  const std::size_t height = info_.height;
  const std::size_t numbers = width * height * static_cast<std::size_t>(info_.channels);
  if (type <= '3') {
    coding_ = has_bits ? Coding::kTextBits : Coding::kText;
    // A number has at least one digit, and a blank between it and the next unless it is a bit.
    if (reader.left() < (has_bits ? numbers : 2 * numbers - std::min<std::size_t>(numbers, 1))) {
      reader.fail(
          concat("is truncated: ", reader.left(), " bytes cannot hold its ", numbers, " numbers"));
    }
    numbers_ = reader.take(reader.left(), "its pixels");
    return;
  }
  coding_ = has_bits ? Coding::kBits : Coding::kBytes;
  numbers_ = reader.take(has_bits ? (width + 7) / 8 * height : numbers * (max_value_ > 255 ? 2 : 1),
                         "its pixels");
}

void PnmFile::decode_text(Pixels& out) const {
  const std::vector<std::uint8_t> scaled = scale_to_bytes(max_value_);
  std::size_t at = 0;
  const auto fail = [&](const std::string& what) { throw DataError(path_, "PNM: " + what); };
  const auto skip_blanks = [&] {
    for (; at < numbers_.size() && (is_space(numbers_[at]) || numbers_[at] == '#'); ++at) {
      if (numbers_[at] != '#') continue;
      while (at + 1 < numbers_.size() && numbers_[at + 1] != '\n' && numbers_[at + 1] != '\r') ++at;
    }
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    skip_blanks();
    if (at == numbers_.size()) {
      fail(concat("is truncated: it has ", i, " numbers instead of ", out.size()));
    }
    int value = 0;
    const std::size_t first = at;
    while (at < numbers_.size() && numbers_[at] >= '0' && numbers_[at] <= '9') {
      value = value * 10 + (numbers_[at++] - '0');
      if (value > max_value_)
        fail(concat("number ", i, " is more than the largest value ", max_value_));
      if (coding_ == Coding::kTextBits) break;  // bits need no blanks between them
    }
    if (at == first) fail(concat("number ", i, " of its pixels is not a number"));
    const std::uint8_t bit = value == 1 ? 0 : 255;
    out.data()[i] = coding_ == Coding::kTextBits ? bit : scaled[value];
  }
}

std::string PnmFile::decode(int, int, Pixels& out, const LevelTable*) {
  out.reset(info_.height, info_.width, info_.channels);
  if (coding_ == Coding::kText || coding_ == Coding::kTextBits) {
    decode_text(out);
    return "";
  }
  if (coding_ == Coding::kBits) {
    const std::size_t stride = (static_cast<std::size_t>(info_.width) + 7) / 8;
    for (int y = 0; y < info_.height; ++y) {
      const std::uint8_t* bits = numbers_.data() + static_cast<std::size_t>(y) * stride;
      for (int x = 0; x < info_.width; ++x) {
        out.row(y)[x] = (bits[x / 8] >> (7 - x % 8) & 1) != 0 ? 0 : 255;
      }
    }
    return "";
  }
  if (max_value_ == 255) {
    std::ranges::copy(numbers_, out.data());
    return "";
  }
  const std::vector<std::uint8_t> scaled = scale_to_bytes(max_value_);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t value =
        max_value_ > 255 ? std::size_t{numbers_[2 * i]} << 8 | numbers_[2 * i + 1] : numbers_[i];
    out.data()[i] = scaled[value];
  }
  return "";
}

}  // namespace

std::unique_ptr<Decoder> open_pnm(EncodedBytes file, const std::string& path) {
  return std::make_unique<PnmFile>(file, path);
}

}  // namespace trainer::data
