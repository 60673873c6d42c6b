#include "data/jpeg/header.h"

#include <algorithm>
#include <string_view>

#include "data/decode/pixels.h"

namespace trainer::data::jpeg {
namespace {

enum Marker : int {
  kSof0 = 0xC0,
  kSof1 = 0xC1,
  kDht = 0xC4,
  kSos = 0xDA,
  kDqt = 0xDB,
  kDri = 0xDD,
  kApp0 = 0xE0,
  kApp1 = 0xE1,
  kApp14 = 0xEE,
  kApp15 = 0xEF,
  kCom = 0xFE,
};

// The limit of libjpeg.
constexpr int kMaxJpegSide = 65500;

int read16(File at) { return at[0] << 8 | at[1]; }

bool starts_with(File segment, std::string_view text) {
  return segment.size() >= text.size() && std::equal(text.begin(), text.end(), segment.begin());
}

// Reads one marker segment after the other. Functions return whether the file is plain so far.
class Reader {
 public:
  Reader(File file, Header& header) : file_(file), header_(header) {}

  bool run() {
    if (file_.size() < 4 || file_[0] != 0xFF || file_[1] != 0xD8) return false;
    for (std::size_t at = 2; file_.size() - at >= 4;) {
      if (file_[at] != 0xFF) return false;
      const int marker = file_[at + 1];
      const std::size_t length = read16(file_.subspan(at + 2));
      if (length < 2 || file_.size() - at - 2 < length) return false;
      const File segment = file_.subspan(at + 4, length - 2);
      at += 2 + length;
      header_.scan = at;
      if (marker == kSos) return frame_ && scan(segment) && is_ycc() && has_tables();
      if (!read(marker, segment)) return false;
    }
    return false;
  }

 private:
  bool read(int marker, File segment) {
    switch (marker) {
      case kSof0:
      case kSof1:
        return frame(segment);
      case kDht:
        return huffman(segment);
      case kDqt:
        return quantisation(segment);
      case kDri:
        return restart(segment);
      case kApp0:
        return app0(segment);
      case kApp1:
        return app1(segment);
      case kApp14:
        return app14(segment);
      default:
        return marker == kCom || (marker >= kApp0 && marker <= kApp15);
    }
  }

  bool frame(File segment) {
    if (frame_ || segment.size() < 6 || segment[0] != 8) return false;
    frame_ = true;
    header_.height = read16(segment.subspan(1));
    header_.width = read16(segment.subspan(3));
    header_.components = segment[5];
    const int count = header_.components;
    const auto side = [](int size) { return size > 0 && size <= kMaxJpegSide; };
    if (!side(header_.height) || !side(header_.width)) return false;
    if (count != 1 && count != 3) return false;
    if (segment.size() != 6 + 3 * static_cast<std::size_t>(count)) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const File entry = segment.subspan(6 + 3 * i, 3);
      Component& one = header_.component[i];
      one.id = entry[0];
      one.h = entry[1] >> 4;
      one.v = entry[1] & 15;
      one.quant = entry[2];
      if (one.quant > 3) return false;
    }
    return plain_sampling();
  }

  bool plain_sampling() const {
    const auto& [first, second, third] = header_.component;
    if (header_.components == 1) return first.h == 1 && first.v == 1;
    if (first.id == second.id || first.id == third.id || second.id == third.id) return false;
    const bool luma = (first.h == 1 || first.h == 2) && first.v >= 1 && first.v <= first.h;
    return luma && second.h == 1 && second.v == 1 && third.h == 1 && third.v == 1;
  }

  bool huffman(File segment) {
    while (!segment.empty()) {
      if (segment.size() < 17) return false;
      const int index = segment[0];
      if ((index & ~0x13) != 0) return false;
      int symbols = 0;
      for (std::size_t i = 1; i <= 16; ++i) symbols += segment[i];
      if (symbols > 256 || segment.size() < 17 + static_cast<std::size_t>(symbols)) return false;
      auto& tables = index < 0x10 ? header_.dc : header_.ac;
      tables[index & 3] = {segment.data() + 1, symbols};
      segment = segment.subspan(17 + static_cast<std::size_t>(symbols));
    }
    return true;
  }

  bool quantisation(File segment) {
    for (; !segment.empty(); segment = segment.subspan(65)) {
      if (segment.size() < 65 || segment[0] > 3) return false;
      header_.quant[segment[0]] = segment.data() + 1;
    }
    return true;
  }

  bool restart(File segment) {
    if (segment.size() != 2) return false;
    header_.restart_interval = read16(segment);
    return true;
  }

  bool app0(File segment) {
    if (segment.size() < 14 || !starts_with(segment, {"JFIF\0", 5})) return true;
    jfif_ = true;
    return segment[5] == 1;
  }
  bool app1(File segment) {
    orientation_.add(segment);
    header_.orientation = orientation_.value();
    return true;
  }
  bool app14(File segment) {
    if (segment.size() < 12 || !starts_with(segment, "Adobe")) return true;
    adobe_ = true;
    transform_ = segment[11];
    return true;
  }

  bool scan(File segment) {
    const std::size_t count = header_.components;
    if (segment.size() != 4 + 2 * count || segment[0] != count) return false;
    for (std::size_t i = 0; i < count; ++i) {
      Component& one = header_.component[i];
      const int tables = segment[2 + 2 * i];
      if (segment[1 + 2 * i] != one.id || (tables & ~0x33) != 0) return false;
      one.dc = tables >> 4;
      one.ac = tables & 15;
    }
    const File rest = segment.subspan(1 + 2 * count);
    return rest[0] == 0 && rest[1] == 63 && rest[2] == 0;
  }

  // Guesses whether three components are YCbCr, as libjpeg does.
  bool is_ycc() const {
    if (header_.components == 1 || jfif_) return true;
    if (adobe_) return transform_ == 1;
    const auto& [first, second, third] = header_.component;
    return first.id == 1 && second.id == 2 && third.id == 3;
  }

  bool has_tables() const {
    for (std::size_t i = 0; i < static_cast<std::size_t>(header_.components); ++i) {
      const Component& one = header_.component[i];
      const auto at = [](const auto& tables, int index) { return tables[index]; };
      if (at(header_.quant, one.quant) == nullptr || at(header_.dc, one.dc).counts == nullptr ||
          at(header_.ac, one.ac).counts == nullptr) {
        return false;
      }
    }
    return true;
  }

  File file_;
  Header& header_;
  JpegOrientation orientation_;
  bool frame_ = false, jfif_ = false, adobe_ = false;
  int transform_ = 0;
};

}  // namespace

bool read_plain_header(File file, Header& header) { return Reader(file, header).run(); }

}  // namespace trainer::data::jpeg
