// WebP and TIFF against Pillow: fixtures of make_webp_tiff.py.
#include <doctest/doctest.h>

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

TEST_CASE("a TIFF of many pixels in a small file is refused before they are decoded") {
  const Bytes file = file_named("rgb.tif");
  Pixels pixels;
  CHECK_THROWS_WITH_AS(ImageFile(file, "x", {100, 1 << 20}), doctest::Contains("pixels, more than"),
                       DataError);
}

}  // namespace trainer::data::webp_tiff_test
