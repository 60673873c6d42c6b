// WebP and TIFF against Pillow: fixtures of make_webp_tiff.py.
#include <doctest/doctest.h>
#include <libdeflate.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
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

std::string error_of(const Bytes& file, int channels = 3) {
  try {
    Pixels pixels;
    ImageFile(file, "x", {}).decode(channels, 1, pixels);
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("WebP and TIFF files have the pixels that Pillow reads") {
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

TEST_CASE("WebP and TIFF: every truncation is refused by name") {
  for (const auto& [name, expected] : fixture().items()) {
    const Bytes file = file_named(name);
    for (std::size_t size = 16; size + 1 < file.size(); size += 7) {
      const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      // The last bytes mark the end of the pixels, which are all there.
      if (name == "one.tif" && size + 8 > file.size()) continue;
      const std::string error = error_of(cut);
      CAPTURE(name);
      CAPTURE(size);
      CHECK(error.starts_with(name.ends_with("webp") ? "x: WebP: " : "x: TIFF: "));
    }
  }
}

TEST_CASE("TIFF: one strip far larger than its file, refused before memory is taken") {
  const std::uint32_t side = 6000;
  const Bytes black(std::size_t{side} * side * 3);
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(9), libdeflate_free_compressor);
  Bytes packed(libdeflate_zlib_compress_bound(compressor.get(), black.size()));
  packed.resize(libdeflate_zlib_compress(compressor.get(), black.data(), black.size(),
                                         packed.data(), packed.size()));
  packed.resize(packed.size() + packed.size() % 2);
  Bytes file{'I', 'I', '*', 0};
  const auto put = [&](std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  };
  put(static_cast<std::uint32_t>(8 + packed.size()), 4);
  file.insert(file.end(), packed.begin(), packed.end());
  const std::uint32_t tags[][3] = {
      {256, 4, side}, {257, 4, side}, {258, 3, 8},
      {259, 3, 8},    {262, 3, 2},    {273, 4, 8},
      {277, 3, 3},    {278, 4, side}, {279, 4, static_cast<std::uint32_t>(packed.size())}};
  put(std::size(tags), 2);
  for (const auto& [tag, type, value] : tags) {
    put(tag, 2);
    put(type, 2);
    put(1, 4);
    put(value, 4);
  }
  put(0, 4);
  Pixels pixels;
  ImageFile image(file, "x", {});
  CHECK_THROWS_WITH_AS(image.decode(3, 1, pixels), doctest::Contains("TIFF: is damaged"),
                       DataError);
}

TEST_CASE("a TIFF of many pixels in a small file is refused before they are decoded") {
  const Bytes file = file_named("rgb.tif");
  Pixels pixels;
  CHECK_THROWS_WITH_AS(ImageFile(file, "x", {100, 1 << 20}), doctest::Contains("pixels, more than"),
                       DataError);
}

}  // namespace trainer::data::webp_tiff_test
