// WebP and TIFF against Pillow: fixtures of make_webp_tiff.py.
#include <doctest/doctest.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/files.h"
#include "data/decode/image_file.h"
#include "support/source_files.h"

namespace trainer::data::webp_tiff_test {
namespace {

using nlohmann::json;

const json& fixture() {
  static const json content = [] {
    std::ifstream file(test::source_file("test/data/decode/webp_tiff.json"));
    return json::parse(file);
  }();
  return content["files"];
}

Bytes file_named(const std::string& name) {
  const std::string text = read_text_file(test::source_file("test/fuzz/seeds/images/" + name));
  return {text.begin(), text.end()};
}

std::string catch_error(const Bytes& file, int channels = 3) {
  try {
    Pixels pixels;
    ImageFile(file, "x", {}).decode(channels, 1, pixels);
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

void put(Bytes& file, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) file.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

// An uncompressed TIFF of 2 x 1 pixels, little-endian.
struct Tiff {
  std::uint32_t photometric = 2, samples = 3, bits = 8, format = 1;
  std::vector<std::uint32_t> extra = {};  // kinds of the samples that are not colours
  std::vector<std::uint32_t> pixel = {};  // both pixels have these numbers
  bool is_big = false;
};
Bytes tiff(const Tiff& image) {
  const int address = image.is_big ? 8 : 4;
  Bytes pixels;
  for (int i = 0; i < 2; ++i) {
    for (const std::uint32_t number : image.pixel) {
      put(pixels, number, static_cast<int>(image.bits / 8));
    }
  }
  using Numbers = std::vector<std::uint32_t>;
  std::vector<std::pair<std::uint32_t, Numbers>> tags{
      {256, {2}},
      {257, {1}},
      {258, Numbers(image.samples, image.bits)},
      {259, {1}},
      {262, {image.photometric}},
      {273, {image.is_big ? 16u : 8u}},
      {277, {image.samples}},
      {278, {1}},
      {279, {static_cast<std::uint32_t>(pixels.size())}},
      {284, {1}}};
  if (!image.extra.empty()) tags.push_back({338, image.extra});
  tags.push_back({339, Numbers(image.samples, image.format)});
  Bytes file{'I', 'I', static_cast<std::uint8_t>(image.is_big ? 43 : 42), 0};
  if (image.is_big) put(file, 8, 4);
  const std::size_t start = file.size() + static_cast<std::size_t>(address) + pixels.size();
  put(file, start, address);
  file.insert(file.end(), pixels.begin(), pixels.end());
  const std::size_t entry = image.is_big ? 20 : 12, count_bytes = image.is_big ? 8 : 2;
  std::size_t after = start + count_bytes + entry * tags.size() + static_cast<std::size_t>(address);
  Bytes values;
  put(file, tags.size(), static_cast<int>(count_bytes));
  for (const auto& [tag, numbers] : tags) {
    put(file, tag, 2);
    put(file, 3, 2);
    put(file, numbers.size(), address);
    Bytes packed;
    for (const std::uint32_t number : numbers) put(packed, number, 2);
    if (packed.size() > static_cast<std::size_t>(address)) {
      put(file, after + values.size(), address);
      values.insert(values.end(), packed.begin(), packed.end());
    } else {
      packed.resize(static_cast<std::size_t>(address));
      file.insert(file.end(), packed.begin(), packed.end());
    }
  }
  put(file, 0, address);
  file.insert(file.end(), values.begin(), values.end());
  return file;
}

// "10 100 200": the first pixel; or the error after the file's name.
std::string first_pixel(const Bytes& file) {
  try {
    Pixels pixels;
    ImageFile(file, "x", {}).decode(3, 1, pixels);
    std::string text;
    for (int c = 0; c < pixels.channels(); ++c) {
      text += concat(c == 0 ? "" : " ", int{pixels.data()[c]});
    }
    return text;
  } catch (const DataError& error) {
    return std::string(error.what()).substr(3);
  }
}

void add_webp_chunk(Bytes& file, const char* kind, const Bytes& content) {
  for (int i = 0; i < 4; ++i) file.push_back(static_cast<std::uint8_t>(kind[i]));
  put(file, content.size(), 4);
  file.insert(file.end(), content.begin(), content.end());
  if (content.size() % 2 != 0) file.push_back(0);
}

// A WebP of these chunks behind a VP8X header.
Bytes webp(int width, int height, std::uint8_t flags, const Bytes& chunks) {
  Bytes header{flags, 0, 0, 0};
  put(header, static_cast<std::uint64_t>(width - 1), 3);
  put(header, static_cast<std::uint64_t>(height - 1), 3);
  Bytes body{'W', 'E', 'B', 'P'};
  add_webp_chunk(body, "VP8X", header);
  body.insert(body.end(), chunks.begin(), chunks.end());
  Bytes file{'R', 'I', 'F', 'F'};
  put(file, body.size(), 4);
  file.insert(file.end(), body.begin(), body.end());
  return file;
}

Pixels decode_pixels(const Bytes& file) {
  Pixels pixels;
  ImageFile(file, "x", {}).decode(3, 1, pixels);
  return pixels;
}

bool are_equal(const Pixels& a, const Pixels& b) {
  return a.height() == b.height() && a.width() == b.width() && a.size() == b.size() &&
         std::equal(a.data(), a.data() + a.size(), b.data());
}

}  // namespace

TEST_CASE("TIFF: colours multiplied by alpha are divided by it, other samples are not") {
  CHECK(first_pixel(tiff({2, 3, 8, 1, {}, {10, 100, 200}})) == "10 100 200");
  CHECK(first_pixel(tiff({2, 4, 8, 1, {2}, {10, 100, 200, 250}})) == "10 100 200");
  CHECK(first_pixel(tiff({2, 4, 8, 1, {0}, {10, 100, 200, 250}})) == "10 100 200");
  CHECK(first_pixel(tiff({2, 4, 8, 1, {1}, {10, 100, 200, 250}})) == "10 102 204");
  CHECK(first_pixel(tiff({2, 4, 8, 1, {1}, {10, 20, 200, 20}})) == "127 255 255");
  CHECK(first_pixel(tiff({2, 4, 8, 1, {1}, {0, 0, 0, 0}})) == "0 0 0");
  CHECK(first_pixel(tiff({2, 4, 16, 1, {1}, {0x0A00, 0x6400, 0xC800, 0xFA00}})) == "10 102 204");
  CHECK(first_pixel(tiff({1, 2, 8, 1, {2}, {100, 250}})) == "100");
  CHECK(first_pixel(tiff({1, 2, 8, 1, {1}, {100, 250}})) == "102");
}

TEST_CASE("ImageFile warns of a TIFF with several images") {
  Bytes file = tiff({.pixel = {10, 100, 200}});
  Pixels pixels;
  CHECK(ImageFile(file, "x", {}).decode(3, 1, pixels) == "");
  const std::size_t first = file[4], entries = file[first], next = first + 2 + 12 * entries;
  const std::size_t second = file.size();
  Bytes directory(file.begin() + static_cast<long>(first),
                  file.begin() + static_cast<long>(next) + 4);
  file.insert(file.end(), directory.begin(), directory.end());
  file[next] = static_cast<std::uint8_t>(second);
  file[next + 1] = static_cast<std::uint8_t>(second >> 8);
  CHECK(ImageFile(file, "x", {}).decode(3, 1, pixels) ==
        "TIFF: has 2 images, of which the first is read");
  CHECK(int{pixels.data()[1]} == 100);
}

TEST_CASE("TIFF: BigTIFF is read") {
  CHECK(first_pixel(tiff({2, 3, 8, 1, {}, {10, 100, 200}, true})) == "10 100 200");
  CHECK(first_pixel(tiff({1, 1, 16, 1, {}, {0x8000}, true})) == "128");
}

TEST_CASE("TIFF: the error of bands, signed numbers and 16-bit CMYK has the reason") {
  const std::vector<std::uint32_t> none, ten(10, 0), thirteen(13, 700);
  CHECK(first_pixel(tiff({1, 4, 8, 1, {0, 0, 0}, {10, 100, 200, 250}}))
            .starts_with("TIFF: has 4 bands; "));
  CHECK(first_pixel(tiff({1, 4, 8, 1, none, {10, 100, 200, 250}}))
            .starts_with("TIFF: has 4 bands; "));
  CHECK(first_pixel(tiff({1, 2, 8, 1, {0}, {10, 100}})).starts_with("TIFF: has 2 bands; "));
  CHECK(first_pixel(tiff({1, 13, 16, 1, std::vector<std::uint32_t>(12, 0), thirteen}))
            .starts_with("TIFF: has 13 bands; "));
  CHECK(first_pixel(tiff({2, 13, 16, 1, ten, thirteen})).starts_with("TIFF: has 13 bands; "));
  CHECK(first_pixel(tiff({1, 1, 16, 2, {}, {0xFFFB}}))
            .starts_with("TIFF: has 16-bit signed numbers, which are not supported; convert"));
  CHECK(first_pixel(tiff({1, 1, 8, 2, {}, {0xFB}})).starts_with("TIFF: has 8-bit signed numbers"));
  CHECK(first_pixel(tiff({1, 1, 16, 3, {}, {0x3800}}))
            .starts_with("TIFF: has 16-bit floating-point numbers"));
  CHECK(first_pixel(tiff({1, 1, 32, 3, {}, {0x3F000000}}))
            .starts_with("TIFF: has 32-bit floating-point numbers"));
  CHECK(first_pixel(tiff({5, 4, 16, 1, {}, {1, 2, 3, 4}}))
            .starts_with("TIFF: has CMYK colours of 16 bits"));
  CHECK(first_pixel(tiff({5, 4, 8, 1, {}, {255, 255, 255, 255}})) == "0 0 0");
}

TEST_CASE("TIFF: CMYK of 8 bits has the pixels of Pillow") {
  // Pillow rounds to the nearest level. libtiff's conversion gives 124 205 0 and 184 92 0.
  CHECK(first_pixel(tiff({5, 4, 8, 1, {}, {100, 0, 255, 50}})) == "125 205 0");
  CHECK(first_pixel(tiff({5, 4, 8, 1, {}, {1, 128, 254, 70}})) == "184 92 1");
  CHECK(first_pixel(tiff({5, 4, 8, 1, {}, {0, 0, 0, 0}})) == "255 255 255");
  CHECK(first_pixel(tiff({5, 5, 8, 1, {0}, {100, 0, 255, 50, 9}})) == "125 205 0");
  CHECK(first_pixel(tiff({5, 9, 8, 1, {0, 0, 0, 0, 0}, std::vector<std::uint32_t>(9, 0)}))
            .starts_with("TIFF: has 9 bands; CMYK images"));
}

TEST_CASE("WebP: the orientation of EXIF, or else of XMP, turns the image") {
  for (const char* name : {"lossless.webp", "lossy.webp"}) {
    const Bytes plain = file_named(name);
    const Pixels stored = decode_pixels(plain);
    const Bytes image(plain.begin() + 12, plain.end());
    for (int orientation = 1; orientation <= 8; ++orientation) {
      CAPTURE(orientation);
      Pixels expected = decode_pixels(plain);
      orient(expected, orientation);
      Bytes block{'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0};
      put(block, static_cast<std::uint64_t>(orientation), 4);
      put(block, 0, 4);
      Bytes prefixed{'E', 'x', 'i', 'f', 0, 0};
      prefixed.insert(prefixed.end(), block.begin(), block.end());
      const std::string packet = concat("<x tiff:Orientation=\"", orientation, "\"/>");
      for (const auto& [kind, content] : {std::pair<const char*, Bytes>{"EXIF", block},
                                          {"EXIF", prefixed},
                                          {"XMP ", Bytes(packet.begin(), packet.end())}}) {
        Bytes chunks = image;
        add_webp_chunk(chunks, kind, content);
        const Bytes file = webp(stored.width(), stored.height(), 0x0C, chunks);
        CHECK(ImageFile(file, "x", {}).info().width == expected.width());
        CHECK(are_equal(decode_pixels(file), expected));
      }
    }
  }
}

TEST_CASE("WebP: an animation is its first frame") {
  const Bytes plain = file_named("lossless.webp");
  const Pixels frame = decode_pixels(plain);
  const Bytes image(plain.begin() + 12, plain.end());
  const auto animation = [&](int left, int top, int width, int height, int canvas_width,
                             int canvas_height) {
    Bytes content;
    for (const int value : {left / 2, top / 2, width - 1, height - 1, 100}) {
      put(content, static_cast<std::uint64_t>(value), 3);
    }
    content.push_back(0);
    content.insert(content.end(), image.begin(), image.end());
    Bytes chunks;
    add_webp_chunk(chunks, "ANIM", Bytes(6));
    add_webp_chunk(chunks, "ANMF", content);
    add_webp_chunk(chunks, "ANMF", Bytes(16));
    return webp(canvas_width, canvas_height, 0x02, chunks);
  };
  const int width = frame.width(), height = frame.height();
  CHECK(are_equal(decode_pixels(animation(0, 0, width, height, width, height)), frame));
  const Pixels larger = decode_pixels(animation(2, 4, width, height, width + 5, height + 6));
  REQUIRE(larger.width() == width + 5);
  for (int y = 0; y < larger.height(); ++y) {
    for (int x = 0; x < larger.width(); ++x) {
      const bool inside = x >= 2 && x < 2 + width && y >= 4 && y < 4 + height;
      for (int c = 0; c < 3; ++c) {
        const int expected = inside ? frame.row(y - 4)[3 * (x - 2) + c] : 0;
        CHECK(int{larger.row(y)[3 * x + c]} == expected);
      }
    }
  }
  CHECK(catch_error(animation(0, 0, width + 1, height, width + 9, height)) ==
        "x: WebP: is damaged: the first frame of its animation has another size");
  CHECK(catch_error(animation(2, 0, width, height, width, height)) ==
        "x: WebP: is damaged: the first frame of its animation has another size");
  CHECK(catch_error(webp(width, height, 0x02, {})).starts_with("x: WebP: "));
}

TEST_CASE("WebP and TIFF have the pixels of Pillow") {
  for (const auto& [name, expected] : fixture().items()) {
    CAPTURE(name);
    const Bytes file = file_named(name);
    ImageFile image(file, name, {});
    CHECK(image.info().height == expected["height"]);
    CHECK(image.info().width == expected["width"]);
    CHECK(image.info().channels == expected["channels"]);
    Pixels pixels;
    CHECK(image.decode(3, 1, pixels) == "");
    REQUIRE(pixels.channels() == expected["channels"]);
    const std::string hex = expected["pixels"];
    REQUIRE(hex.size() == 2 * pixels.size());
    int most = 0;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const int value = std::stoi(hex.substr(2 * i, 2), nullptr, 16);
      most = std::max(most, std::abs(pixels.data()[i] - value));
    }
    CHECK(most == 0);
  }
}

TEST_CASE("WebP and TIFF: every truncation is an error that names the format") {
  for (const auto& [name, expected] : fixture().items()) {
    const Bytes file = file_named(name);
    for (std::size_t size = 16; size + 1 < file.size(); size += 7) {
      const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      // The last bytes mark the end of the pixels, which are all there.
      if (name == "one.tif" && size + 8 > file.size()) continue;
      const std::string error = catch_error(cut);
      CAPTURE(name);
      CAPTURE(size);
      CHECK(error.starts_with(name.ends_with("webp") ? "x: WebP: " : "x: TIFF: "));
    }
  }
}

TEST_CASE("TIFF: one strip far larger than its file is an error before memory is allocated") {
  const std::uint32_t side = 6000;
  const Bytes black(std::size_t{side} * side * 3);
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(9), libdeflate_free_compressor);
  Bytes packed(libdeflate_zlib_compress_bound(compressor.get(), black.size()));
  packed.resize(libdeflate_zlib_compress(compressor.get(), black.data(), black.size(),
                                         packed.data(), packed.size()));
  packed.resize(packed.size() + packed.size() % 2);
  Bytes file{'I', 'I', '*', 0};
  put(file, 8 + packed.size(), 4);
  file.insert(file.end(), packed.begin(), packed.end());
  const std::uint32_t tags[][3] = {
      {256, 4, side}, {257, 4, side}, {258, 3, 8},
      {259, 3, 8},    {262, 3, 2},    {273, 4, 8},
      {277, 3, 3},    {278, 4, side}, {279, 4, static_cast<std::uint32_t>(packed.size())}};
  put(file, std::size(tags), 2);
  for (const auto& [tag, type, value] : tags) {
    put(file, tag, 2);
    put(file, type, 2);
    put(file, 1, 4);
    put(file, value, 4);
  }
  put(file, 0, 4);
  Pixels pixels;
  ImageFile image(file, "x", {});
  CHECK_THROWS_WITH_AS(image.decode(3, 1, pixels), doctest::Contains("TIFF: is damaged"),
                       DataError);
}

TEST_CASE("TIFF: many pixels in a small file are an error before they are decoded") {
  const Bytes file = file_named("rgb.tif");
  Pixels pixels;
  CHECK_THROWS_WITH_AS(ImageFile(file, "x", {100, 1 << 20}), doctest::Contains("pixels, more than"),
                       DataError);
}

}  // namespace trainer::data::webp_tiff_test
