// Our decoder of plain JPEG files against libjpeg: whatever it accepts, it must decode to the same
// bits, and libjpeg must not warn of it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/random.h"
#include "data/decode/encoded_jpeg.h"
#include "data/decode/jpeg_file.h"
#include "data/jpeg/plain.h"
#include "support/skip.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

bool decode_plain(const Bytes& file, int channels, int reduce, Pixels& out) {
  jpeg::Header header;
  return jpeg::read_plain_header(file, header) &&
         jpeg::decode_plain(file, header, channels, reduce, out);
}

// How libjpeg differs; "" when it does not.
std::string difference(const Bytes& file, int channels, int reduce, const Pixels& found) {
  Pixels expected;
  std::string warning;
  try {
    warning = decode_with_libjpeg(file, "x.jpg", channels, reduce, expected);
  } catch (const DataError& error) {
    return error.what();
  }
  if (!warning.empty()) return warning;
  if (found.height() != expected.height() || found.width() != expected.width() ||
      found.channels() != expected.channels()) {
    return "another shape";
  }
  const auto [a, b] = std::mismatch(found.data(), found.data() + found.size(), expected.data());
  if (a == found.data() + found.size()) return "";
  const auto at = static_cast<std::size_t>(a - found.data());
  return concat("byte ", at % found.row_bytes(), " of row ", at / found.row_bytes(), " is ",
                int{*a}, ", not ", int{*b});
}

// How many of the ways to decode the file were ours.
int check_all_ways(const Bytes& file) {
  int ours = 0;
  for (const int channels : {3, 1}) {
    for (const int reduce : {1, 2, 4, 8}) {
      Pixels found;
      if (!decode_plain(file, channels, reduce, found)) continue;
      ++ours;
      CAPTURE(channels);
      CAPTURE(reduce);
      CHECK(difference(file, channels, reduce, found) == "");
    }
  }
  return ours;
}

bool runs_here() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"); }

Bytes changed(Bytes file, Random& random) {
  const std::size_t changes = 1 + random.below(3);
  for (std::size_t i = 0; i < changes; ++i) {
    const std::size_t at = 2 + random.below(file.size() - 2);
    const auto where = file.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random.below(5)) {
      case 0:
        *where = static_cast<std::uint8_t>(random.below(256));
        break;
      case 1:
        *where = static_cast<std::uint8_t>(*where ^ 1 << random.below(8));
        break;
      case 2:
        file.erase(where);
        break;
      case 3:
        file.insert(where, static_cast<std::uint8_t>(random.below(2) * 255));
        break;
      default:
        file.resize(std::max<std::size_t>(at, 4));
    }
  }
  return file;
}

}  // namespace

TEST_CASE("decode_plain: all forms of plain files have the pixels of libjpeg") {
  if (!runs_here()) TRAINER_SKIP("this processor lacks AVX2 or BMI2");
  Random random(1, Stream::kSynthetic);
  const std::pair<int, int> sizes[] = {{1, 5},   {8, 8},   {16, 16}, {17, 31},  {33, 32},
                                       {15, 47}, {64, 65}, {50, 97}, {100, 130}};
  for (const auto& [height, width] : sizes) {
    for (const auto& [h, v] : {std::pair(1, 1), {2, 1}, {2, 2}}) {
      for (const int quality : {5, 60, 90, 100}) {
        JpegKind kind{height, width, 3, h, v, quality, quality == 60 ? 3 : 0, quality == 90, false};
        CAPTURE(height);
        CAPTURE(width);
        CAPTURE(h);
        CAPTURE(v);
        CAPTURE(quality);
        const int noise = quality == 5 ? 2 : quality == 100 ? 200 : 30;
        // Where chroma has two columns or fewer, or luma one sample a block, libjpeg does
        // otherwise.
        const bool narrow = h == 2 && width / 2 < 24;
        const int ours = check_all_ways(encode_jpeg(kind, noise, random));
        CHECK((narrow || ours >= (h == 2 && v == 1 ? 7 : 8)));
        kind.components = 1;
        CHECK(check_all_ways(encode_jpeg(kind, noise, random)) == 8);
      }
    }
  }
}

TEST_CASE("read_plain_header is false for files that are not plain") {
  Random random(2, Stream::kSynthetic);
  JpegKind kind{40, 40, 3, 2, 2, 75, 0, false, true};
  CHECK(check_all_ways(encode_jpeg(kind, 10, random)) == 0);
  kind.progressive = false;
  kind.h = 1;
  CHECK(check_all_ways(encode_jpeg(kind, 10, random)) == 0);
  kind.v = 1;
  const Bytes file = encode_jpeg(kind, 10, random);
  for (std::size_t size = 0; size + 2 < file.size(); size += 7) {
    CHECK(check_all_ways({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}) == 0);
  }
}

TEST_CASE(
    "read_plain_header: JFIF, the Adobe marker or component names decide three components' "
    "colours") {
  if (!runs_here()) TRAINER_SKIP("this processor lacks AVX2 or BMI2");
  Random random(4, Stream::kSynthetic);
  JpegKind kind{40, 64, 3, 1, 1, 75};
  kind.markers = false;
  CHECK(check_all_ways(encode_jpeg(kind, 10, random)) == 8);
  kind.rgb = true;
  CHECK(check_all_ways(encode_jpeg(kind, 10, random)) == 0);  // named R, G and B
  kind.markers = true;
  CHECK(check_all_ways(encode_jpeg(kind, 10, random)) == 0);
}

TEST_CASE("JPEG: damaged files have the result of libjpeg alone") {
  if (!runs_here()) TRAINER_SKIP("this processor lacks AVX2 or BMI2");
  Random random(3, Stream::kSynthetic);
  std::vector<Bytes> files;
  for (const auto& [h, v] : {std::pair(1, 1), {2, 1}, {2, 2}}) {
    files.push_back(encode_jpeg({24, 40, 3, h, v, 80, h == 2 ? 2 : 0, true, false}, 40, random));
    files.push_back(encode_jpeg({32, 33, 3, h, v, 97, 0, false, false}, 200, random));
  }
  files.push_back(encode_jpeg({30, 50, 1, 1, 1, 85, 4, false, false}, 60, random));
  int ours = 0;
  for (int i = 0; i < 4000; ++i) {
    CAPTURE(i);
    const Bytes file = changed(files[static_cast<std::size_t>(i) % files.size()], random);
    const int reduce = 1 << random.below(4), channels = random.below(4) == 0 ? 1 : 3;
    Pixels found;
    if (!decode_plain(file, channels, reduce, found)) continue;
    ++ours;
    CHECK(difference(file, channels, reduce, found) == "");
  }
  // Many a change leaves a whole file with other pixels.
  CHECK(ours > 400);
}

TEST_CASE("decode_plain: real files have the pixels of libjpeg") {
  std::string folder;
  int most = 25;
  SUBCASE("photographs") { folder = "cats_vs_dogs/validation"; }
  SUBCASE("grey images") { folder = "oct_kermany_sample"; }
  SUBCASE("unusual files") {
    folder = "awkward_jpeg";
    most = 1000;
  }
  const char* shared = std::getenv("TRAINER_SHARED_DATA");
  const fs::path root = shared == nullptr ? fs::path() : fs::path(shared) / folder;
  if (!fs::is_directory(root)) TRAINER_SKIP("TRAINER_SHARED_DATA names no folder with " + folder);
  int files = 0, ours = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file() || files == most) continue;
    ++files;
    CAPTURE(entry.path().string());
    ours += check_all_ways(read_file(entry.path())) > 0 ? 1 : 0;
  }
  if (runs_here()) CHECK(ours > files / 4);
}

TEST_CASE("open_jpeg: a plain file has the pixels of libjpeg") {
  Random random(4, Stream::kSynthetic);
  const Bytes file = encode_jpeg({60, 70, 3, 2, 2, 85, 0, false, false}, 20, random);
  Pixels found;
  const auto jpeg = open_jpeg(file, "x.jpg");
  CHECK(jpeg->decode(3, 1, found, nullptr) == "");
  CHECK(difference(file, 3, 1, found) == "");
  const ImageInfo info = jpeg->info();
  CHECK(info.height == 60);
  CHECK(info.width == 70);
  CHECK(info.channels == 3);
  CHECK(info.orientation == 1);
}

}  // namespace trainer::data
