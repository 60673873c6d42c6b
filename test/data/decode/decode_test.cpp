#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "data/decode/encoded_jpeg.h"
#include "data/decode/image_file.h"
#include "support/no_further_file.h"
#include "support/skip.h"
#include "support/source_files.h"

namespace trainer::data::decode_test {
namespace {

namespace fs = std::filesystem;

struct Expected {
  std::string path;
  bool decodes = false;
  int width = 0, height = 0;
  std::vector<double> means;  // 4 x 4 cells of RGB
};

std::vector<Expected> pillow_table() {
  std::vector<Expected> table;
  std::istringstream lines(read_text_file(test::source_file("test/data/decode/pillow_decode.tsv")));
  for (std::string line; std::getline(lines, line);) {
    const auto tab = line.find('\t');
    Expected expected{line.substr(0, tab), line.substr(tab + 1) != "error", 0, 0, {}};
    std::istringstream rest(line.substr(tab + 1));
    if (expected.decodes) {
      rest >> expected.width >> expected.height;
      for (double value; rest >> value;) expected.means.push_back(value);
    }
    table.push_back(expected);
  }
  return table;
}

std::vector<double> means(const Pixels& image) {
  std::vector<double> result;
  const auto bounds = [](int i, int length) {
    const int low = i * length / 4;
    return std::pair(low, std::max((i + 1) * length / 4, low + 1));
  };
  for (int i = 0; i < 16; ++i) {
    const auto [top, bottom] = bounds(i / 4, image.height());
    const auto [left, right] = bounds(i % 4, image.width());
    for (int c = 0; c < 3; ++c) {
      double sum = 0;
      for (int y = top; y < bottom; ++y) {
        for (int x = left; x < right; ++x) {
          const int channels = image.channels();
          sum += image.row(y)[x * channels + (channels == 3 ? c : 0)];
        }
      }
      result.push_back(sum / ((bottom - top) * (right - left)));
    }
  }
  return result;
}

constexpr const char* kNoAwkward = "TRAINER_SHARED_DATA names no folder with awkward_jpeg";

const fs::path* awkward() {
  static const fs::path kFolder = [] {
    const char* root = std::getenv("TRAINER_SHARED_DATA");
    return root == nullptr ? fs::path() : fs::path(root) / "awkward_jpeg";
  }();
  return fs::is_directory(kFolder) ? &kFolder : nullptr;
}

Pixels decode_file(const fs::path& path, int channels = 3, int reduce = 1) {
  const Bytes file = read_file(path);
  Pixels image;
  ImageFile(file, path.string(), {}).decode(channels, reduce, image);
  return image;
}

// Where the frame header (SOF0) of a JPEG begins.
std::size_t find_frame_header(const Bytes& file) {
  const std::uint8_t marker[] = {0xFF, 0xC0};
  return static_cast<std::size_t>(std::search(file.begin(), file.end(), marker, marker + 2) -
                                  file.begin());
}

std::string catch_error(const Bytes& file, const ImageLimits& limits = {}) {
  try {
    Pixels image;
    ImageFile(file, "x.jpg", limits).decode(3, 1, image);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("JPEG: unusual files give the pixels of Pillow or an error with the path") {
  const fs::path* root = awkward();
  if (root == nullptr) TRAINER_SKIP(kNoAwkward);
  // Their data end too early, which Pillow does not mind.
  const std::string tests = "image-rs_jpeg-decoder/crashtest/images/";
  const std::set<std::string> refused{tests + "dc-predictor-overflow.jpg",
                                      tests + "imagetestsuite/1cbb1bb37d62c44f67374cd451643dc4.jpg",
                                      tests + "imagetestsuite/7997b6b229f25315d33f5c7085e37500.jpg",
                                      tests + "imagetestsuite/8e5e74dbf9b68a322fbb9512db837329.jpg",
                                      tests + "imagetestsuite/f6b4389c3cf0f5997b2e5a4b905aea8d.jpg",
                                      "pillow/hopper_bad_exif.jpg"};
  std::set<std::string> seen;
  for (const Expected& expected : pillow_table()) {
    CAPTURE(expected.path);
    seen.insert(expected.path);
    const fs::path path = *root / expected.path;
    std::string error;
    Pixels image;
    try {
      image = decode_file(path);
    } catch (const DataError& thrown) {
      error = thrown.what();
    }
    if (!expected.decodes) {
      // What Pillow rejects may still be complete enough for us; an error names the file.
      if (!error.empty()) CHECK(error.starts_with(path.string() + ": "));
      continue;
    }
    CHECK((error.find("is damaged: ") != std::string::npos) == refused.contains(expected.path));
    if (!error.empty()) continue;
    CHECK(image.width() == expected.width);
    CHECK(image.height() == expected.height);
    const std::vector<double> found = means(image);
    REQUIRE(found.size() == expected.means.size());
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      worst = std::max(worst, std::abs(found[i] - expected.means[i]));
    }
    CHECK(worst <= 1.0);
  }
  for (const auto& entry : fs::recursive_directory_iterator(*root)) {
    if (!entry.is_regular_file() || entry.path().filename() == "CATALOG.tsv") continue;
    CHECK(seen.contains(entry.path().lexically_relative(*root).generic_string()));
  }
}

TEST_CASE("JPEG: every prefix of a file is an error") {
  Random random(1, Stream::kSynthetic);
  JpegKind kind{60, 70};
  SUBCASE("sequential") {}
  SUBCASE("with restart markers") { kind.restart = 3; }
  SUBCASE("progressive") { kind.progressive = true; }
  SUBCASE("CMYK") { kind.components = 4; }
  const Bytes file = encode_jpeg(kind, 20, random);
  REQUIRE(catch_error(file) == "");
  for (std::size_t size = 0; size < file.size() - 2; size += 1 + file.size() / 97) {
    CAPTURE(size);
    CHECK(catch_error({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}) != "");
  }
}

TEST_CASE("JPEG: the error of truncated, lossless and 12-bit files has the reason") {
  Random random(2, Stream::kSynthetic);
  Bytes file = encode_jpeg({128, 128}, 20, random);
  // A missing end marker alone loses no pixel.
  CHECK(catch_error({file.begin(), file.end() - 2}) == "");
  const std::size_t frame = find_frame_header(file);
  Bytes lossless = file, deep = file;
  lossless.at(frame + 1) = 0xC3;
  deep.at(frame + 4) = 12;
  file.resize(file.size() / 2);
  CHECK(catch_error(file) == concat("x.jpg: JPEG: is truncated: the file ends after ", file.size(),
                                    " bytes, before the image of 128 x 128 pixels is complete"));
  CHECK(catch_error(lossless) ==
        "x.jpg: JPEG: is a lossless JPEG, which is not supported; convert it to PNG");
  CHECK(catch_error(deep) ==
        "x.jpg: JPEG: has 12 bits per sample, which is not supported; convert it to PNG");
}

TEST_CASE("JPEG: lost pixels or markers are an error, and other warnings are returned") {
  Random random(3, Stream::kSynthetic);
  const JpegKind kind{64, 64, 3, 2, 2, 75, 2};
  const Bytes file = encode_jpeg(kind, 20, random);
  const auto marker = [&](std::uint8_t code) {
    const std::uint8_t bytes[] = {0xFF, code};
    return std::search(file.begin(), file.end(), bytes, bytes + 2);
  };
  REQUIRE(marker(0xD2) != file.end());
  Bytes lost = file;  // RST2 is missing
  lost.erase(lost.begin() + (marker(0xD2) - file.begin()),
             lost.begin() + (marker(0xD2) - file.begin()) + 2);
  CHECK(catch_error(lost).starts_with("x.jpg: JPEG: is damaged: Corrupt JPEG data: "));
  Bytes jumped = file;  // RST3 where RST2 should be
  jumped[static_cast<std::size_t>(marker(0xD2) - file.begin()) + 1] = 0xD3;
  CHECK(
      catch_error(jumped).starts_with("x.jpg: JPEG: is damaged: Corrupt JPEG data: found marker"));
  Bytes ended = file;  // the end marker comes early
  ended.erase(ended.begin() + (marker(0xD2) - file.begin()) - 20, ended.end() - 2);
  CHECK(
      catch_error(ended).starts_with("x.jpg: JPEG: is damaged: Corrupt JPEG data: premature end"));
  Bytes more = file;  // needless bytes before RST2
  more.insert(more.begin() + (marker(0xD2) - file.begin()), 9, 0x55);
  Pixels image;
  CHECK(ImageFile(more, "x.jpg", {}).decode(3, 1, image) ==
        "Corrupt JPEG data: 9 extraneous bytes before marker 0xd2");
  CHECK(ImageFile(file, "x.jpg", {}).decode(3, 1, image) == "");
}

TEST_CASE("JPEG: more scans than an image needs are an error") {
  Random random(4, Stream::kSynthetic);
  JpegKind kind{16, 16, 1};
  kind.scans = {{1, {0}, 0, 0, 0, 0}};
  for (int k = 1; k <= 49; ++k) {
    kind.scans.push_back({1, {0}, k, k, 0, 1});
    kind.scans.push_back({1, {0}, k, k, 1, 0});
  }
  CHECK(catch_error(encode_jpeg(kind, 20, random)) == "");  // 99
  for (int k = 50; k <= 63; ++k) kind.scans.push_back({1, {0}, k, k, 0, 0});
  CHECK(catch_error(encode_jpeg(kind, 20, random)) ==
        "x.jpg: JPEG: has more than 100 scans; it is damaged or was made to waste time");
}

TEST_CASE("image file: a file beyond the limits is an error before memory is allocated") {
  Random random(5, Stream::kSynthetic);
  const Bytes file = encode_jpeg({128, 100}, 20, random);
  CHECK(catch_error(file, {128 * 100, 1}) == "");
  CHECK(catch_error(file, {128 * 100 - 1, 1}) ==
        "x.jpg: JPEG: has 100 x 128 pixels, more than 12799; raise data.max_pixels if that is "
        "right");
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a.jpg";
  write_file_atomic(path, file);
  std::vector<std::uint8_t> bytes;
  CHECK_THROWS_WITH_AS(read_image_file(path, {1, 100}, bytes),
                       doctest::Contains(concat(file.size(), " bytes").c_str()), DataError);
  const auto size = static_cast<std::int64_t>(file.size());
  CHECK_THROWS_AS(read_image_file(path, {1, size - 1}, bytes), DataError);
  CHECK_NOTHROW(read_image_file(path, {1, size}, bytes));
  CHECK(bytes == file);
  // A PNG header that promises 15000 x 15000 pixels.
  Bytes png{0x89, 'P',  'N',  'G', 13, 10,   26,   10, 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0,
            0,    0x3A, 0x98, 0,   0,  0x3A, 0x98, 8,  2, 0, 0, 0,  0,   0,   0,   0};
  CHECK(catch_error(png).find("has 15000 x 15000 pixels") != std::string::npos);
}

TEST_CASE("read_image_file: on_error does not pass over the error at the limit of open files") {
#ifdef __SANITIZE_ADDRESS__
  TRAINER_SKIP("the check of virtual tables in UBSan needs a file descriptor itself");
#endif
  const TemporaryFolder folder;
  const Path path = folder.path() / "image.png";
  write_file_atomic(path, std::string_view("x"));
  std::vector<std::uint8_t> bytes;
  bool is_data_error = false;
  std::string message;
  try {
    const test::NoFurtherFile limit;
    read_image_file(path, {1, 100}, bytes);
  } catch (const Error& error) {
    is_data_error = dynamic_cast<const DataError*>(&error) != nullptr;
    message = error.what();
  }
  CHECK_FALSE(is_data_error);
  CHECK(message == path.string() +
                       ": cannot be read: Too many open files; raise the limit of open files of "
                       "this process (ulimit -n)");
}

TEST_CASE("read_image_file reads the bytes of an image inside a file and none beyond the end") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "shard";
  write_file_atomic(path, Bytes{1, 2, 3, 4, 5});
  const auto read = [&](std::int64_t first, std::int64_t count) {
    Bytes bytes;
    read_image_file({path, first, count}, {1, 5}, bytes);
    return bytes;
  };
  CHECK(read(0, 5) == Bytes{1, 2, 3, 4, 5});
  CHECK(read(1, 3) == Bytes{2, 3, 4});
  CHECK(read(3, 2) == Bytes{4, 5});
  const std::string shorter = path.string() + ": the file became shorter while it was read";
  for (const auto& [first, count] : {std::pair{3, 3}, {4, 2}, {5, 1}, {6, 1}, {9, 1}}) {
    CAPTURE(first);
    CHECK_THROWS_WITH_AS(read(first, count), shorter.c_str(), DataError);
  }
}

TEST_CASE(
    "image file: decoded at a fraction, the size is rounded up and the colours are the same") {
  Random random(6, Stream::kSynthetic);
  const Bytes file = encode_jpeg({477, 388}, 10, random);
  const auto decoded = [&](int reduce) {
    Pixels image;
    ImageFile(file, "x.jpg", {}).decode(3, reduce, image);
    return image;
  };
  const std::vector<double> whole = means(decoded(1));
  for (const int reduce : {2, 4, 8}) {
    const Pixels image = decoded(reduce);
    CHECK(image.width() == (388 + reduce - 1) / reduce);
    CHECK(image.height() == (477 + reduce - 1) / reduce);
    const std::vector<double> found = means(image);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - whole[i]) < 6);
  }
}

TEST_CASE("image file: colour becomes grey for one channel, and grey is kept") {
  Random random(7, Stream::kSynthetic);
  const auto decoded = [&](const Bytes& file, int channels) {
    Pixels image;
    ImageFile(file, "x.jpg", {}).decode(channels, 1, image);
    return image;
  };
  const Bytes colour = encode_jpeg({60, 70, 3, 1, 1}, 5, random);
  const Pixels rgb = decoded(colour, 3), grey = decoded(colour, 1);
  REQUIRE(rgb.channels() == 3);
  REQUIRE(grey.channels() == 1);
  int worst = 0;
  for (std::size_t i = 0; i < grey.size(); ++i) {
    const std::uint8_t* p = rgb.data() + 3 * i;
    const int luma = (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16;
    worst = std::max(worst, std::abs(luma - grey.data()[i]));
  }
  CHECK(worst <= 20);  // where the conversion to RGB had to clip
  CHECK(decoded(encode_jpeg({60, 70, 1}, 5, random), 3).channels() == 1);
  CHECK(decoded(encode_jpeg({60, 70, 4}, 5, random), 3).channels() == 3);
  CHECK(decoded(encode_jpeg({60, 70, 4}, 5, random), 1).channels() == 1);
}

TEST_CASE("image file: the format is detected by the content for any name") {
  CHECK(catch_error({}) == "x.jpg: is empty");
  CHECK(catch_error({'a', 'b', 'c'}).find("is not a supported image format") != std::string::npos);
  const std::string avif(
      "\0\0\0\x20"
      "ftypavif",
      12);
  CHECK(catch_error({avif.begin(), avif.end()}) ==
        "x.jpg: is a HEIC or AVIF file, which is not supported; convert it to PNG or JPEG, for "
        "example "
        "with ImageMagick: magick FILE NEW.png");
  const std::string webp = "RIFF\1\2\3\4WEBPVP8 ";
  CHECK(catch_error({webp.begin(), webp.end()}).starts_with("x.jpg: WebP: is "));
  // P6 2 x 1
  const std::string ppm = "P6 2 1 255\n\1\2\3\4\5\6";
  const Bytes file(ppm.begin(), ppm.end());
  Pixels image;
  ImageFile(file, "x.jpg", {}).decode(3, 1, image);
  CHECK(image.width() == 2);
  CHECK(image.data()[5] == 6);
  ImageFile(file, "x.jpg", {}).decode(1, 1, image);
  CHECK(image.channels() == 1);
  CHECK(image.data()[1] == 5);
}

TEST_CASE("orient puts the pixels of orientations 0 to 8 in their places") {
  // a b c
  // d e f
  const std::string stored = "abcdef";
  const std::vector<std::pair<int, std::string>> expected{
      {0, "3x2 abcdef"}, {1, "3x2 abcdef"}, {2, "3x2 cbafed"}, {3, "3x2 fedcba"},
      {4, "3x2 defabc"}, {5, "2x3 adbecf"}, {6, "2x3 daebfc"}, {7, "2x3 fcebda"},
      {8, "2x3 cfbead"}, {9, "3x2 abcdef"}};
  for (const auto& [orientation, text] : expected) {
    CAPTURE(orientation);
    Pixels image(2, 3, 1);
    std::copy(stored.begin(), stored.end(), image.data());
    orient(image, orientation);
    CHECK(concat(image.width(), 'x', image.height(), ' ',
                 std::string(image.data(), image.data() + 6)) == text);
  }
}

TEST_CASE("JpegOrientation: EXIF is read in either byte order, and within the marker only") {
  const std::string little("Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0", 28);
  const std::string big("Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\10\0\0\0\0\0\0", 28);
  const auto found = [](const std::string& text) {
    JpegOrientation orientation;
    orientation.add({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    return orientation.value();
  };
  CHECK(found(little) == 6);
  CHECK(found(big) == 8);
  for (std::size_t size = 0; size < 28; ++size) CHECK(found(little.substr(0, size)) == 1);
}

TEST_CASE("JPEG: the orientation of XMP turns the image, unless EXIF has one") {
  const std::string exif("Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\3\0\0\0\0\0\0\0", 32);
  const std::string without("Exif\0\0II*\0\10\0\0\0\0\0\0\0\0\0", 20);
  const std::string xmp =
      std::string("http://ns.adobe.com/xap/1.0/\0", 29) + "<x tiff:Orientation=\"6\"/>";
  for (const bool progressive : {false, true}) {
    CAPTURE(progressive);
    JpegKind kind{16, 24, 3};
    kind.progressive = progressive;
    Random random(5, Stream::kSynthetic);
    const Bytes plain = encode_jpeg(kind, 20, random);
    const auto with = [&](const std::vector<std::string>& markers) {
      Bytes file(plain.begin(), plain.begin() + 2);
      for (const std::string& content : markers) {
        const std::size_t length = content.size() + 2;
        file.insert(file.end(), {0xFF, 0xE1, static_cast<std::uint8_t>(length >> 8),
                                 static_cast<std::uint8_t>(length)});
        file.insert(file.end(), content.begin(), content.end());
      }
      file.insert(file.end(), plain.begin() + 2, plain.end());
      return ImageFile(file, "x.jpg", {}).info().orientation;
    };
    CHECK(with({}) == 1);
    CHECK(with({xmp}) == 6);
    CHECK(with({without, xmp}) == 6);
    CHECK(with({exif, xmp}) == 3);
    CHECK(with({xmp, exif}) == 3);
  }
}

TEST_CASE("image file: a side above 1,000,000 is an error for any max_pixels") {
  const Bytes long_side{0x05, 0xF5, 0xE1, 0}, one{0, 0, 0, 1};  // 100,000,000
  for (const auto& [width, height] : {std::pair(long_side, one), std::pair(one, long_side)}) {
    Bytes png{0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I', 'H', 'D', 'R'};
    png.insert(png.end(), width.begin(), width.end());
    png.insert(png.end(), height.begin(), height.end());
    png.insert(png.end(), {8, 2, 0, 0, 0, 0, 0, 0, 0});
    CHECK(catch_error(png, {1'000'000'000, 1 << 20}).find("a side may have at most 1000000") !=
          std::string::npos);
  }
}

TEST_CASE("pixels: no more memory is kept after a large image than a smaller one needs") {
  Pixels pixels(10'000, 10'000, 3);
  CHECK(pixels.capacity() == 300'000'000);
  pixels.reset(100, 100, 3);
  CHECK(pixels.capacity() == 30'000);
  pixels.reset(1000, 1000, 3);
  pixels.reset(10, 10, 3);
  CHECK(pixels.capacity() == 3'000'000);  // what is small is kept for the next image
}

TEST_CASE(
    "progressive JPEG: coefficients that a small file cannot fill are an error before allocation") {
  const auto make_file = [](int side, int sampling) {
    Bytes file{0xFF, 0xD8, 0xFF, 0xC2, 0, 17, 8};
    for (const int value : {side >> 8, side & 255, side >> 8, side & 255, 3}) {
      file.push_back(static_cast<std::uint8_t>(value));
    }
    for (int component = 1; component <= 3; ++component) {
      for (const int value : {component, component == 1 ? sampling : 0x11, 0}) {
        file.push_back(static_cast<std::uint8_t>(value));
      }
    }
    const Bytes scan{0xFF, 0xDA, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 0, 0, 0xFF, 0xD9};
    file.insert(file.end(), scan.begin(), scan.end());
    return file;
  };
  CHECK(catch_error(make_file(10'000, 0x11)).find("several scans, which need 572 MiB to decode") !=
        std::string::npos);
  // A quarter of the colour: within the bound, and rejected for what it is.
  CHECK(catch_error(make_file(10'000, 0x22)).find("several scans") == std::string::npos);
}

}  // namespace trainer::data::decode_test
