// PNG and WebP files with alpha against Pillow: fixtures of make_alpha.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/decode/image_file.h"
#include "data/decode/level_table.h"
#include "support/source_files.h"

namespace trainer::data::alpha_test {
namespace {

using nlohmann::json;

const json& fixture() {
  static const json content = [] {
    std::ifstream file(test::source_file("test/data/decode/alpha.json"));
    return json::parse(file);
  }();
  return content;
}

Bytes from_hex(const std::string& digits) {
  Bytes bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

Bytes find_file(const std::string& name) {
  for (const json& one : fixture().at("cases")) {
    if (one.at("name") == name) return from_hex(one.at("file"));
  }
  FAIL("no case " << name);
  return {};
}

Bytes decode(const Bytes& file, int channels, const LevelTable* levels = nullptr) {
  Pixels pixels;
  CHECK(ImageFile(file, "x", {}).decode(channels, 1, pixels, levels) == "");
  CHECK(pixels.channels() == channels);
  return {pixels.data(), pixels.data() + pixels.size()};
}

std::string find_error(const Bytes& file, int channels) {
  try {
    Pixels pixels;
    ImageFile(file, "x", {}).decode(channels, 1, pixels);
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("PNG and WebP: data.channels 2 or 4 gives the values and alpha of Pillow") {
  CHECK(fixture().at("cases").size() == 9);
  for (const json& one : fixture().at("cases")) {
    const std::string name = one.at("name");
    CAPTURE(name);
    const Bytes expected = from_hex(one.at("pixels"));
    const Bytes pixels = decode(from_hex(one.at("file")), one.at("channels"));
    REQUIRE(pixels.size() == expected.size());
    CHECK(pixels == expected);
  }
}

TEST_CASE("PNG and WebP: data.channels 3 gives the colours without alpha") {
  for (const char* name : {"rgb.png", "palette.png", "transparent_colour.png", "lossless.webp"}) {
    CAPTURE(name);
    const Bytes with = decode(find_file(name), 4), without = decode(find_file(name), 3);
    REQUIRE(with.size() / 4 == without.size() / 3);
    for (std::size_t i = 0; i < without.size(); ++i) {
      CHECK(without[i] == with[i / 3 * 4 + i % 3]);
    }
  }
}

TEST_CASE("PNG: data.range scales values of 16 bits, not their alpha") {
  const LevelTable levels = make_level_table(0, 30000);
  for (const int channels : {2, 4}) {
    CAPTURE(channels);
    const Bytes file = find_file(channels == 2 ? "grey_16.png" : "rgb_16.png");
    const Bytes plain = decode(file, channels), scaled = decode(file, channels, &levels);
    int larger = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const bool is_alpha =
          i % static_cast<std::size_t>(channels) + 1 == static_cast<std::size_t>(channels);
      if (is_alpha) {
        CHECK(scaled[i] == plain[i]);
      } else {
        // The upper byte alone does not decide the level.
        const std::size_t first = std::size_t{plain[i]} * 256;
        CHECK(scaled[i] >= levels[first]);
        CHECK(scaled[i] <= levels[first + 255]);
        larger += scaled[i] > plain[i] ? 1 : 0;
      }
    }
    CHECK(larger > 0);
  }
}

TEST_CASE(
    "image files: the error of another number of channels than data.channels has the number") {
  const std::string two =
      "x: PNG: has 4 channels with alpha; data.channels: 2 needs grey PNG files "
      "with alpha, or TIFF files with 2 bands";
  CHECK(find_error(find_file("rgb.png"), 2) == two);
  const std::string four =
      "; data.channels: 4 needs PNG or WebP files in colour with alpha, or "
      "TIFF files with 4 bands";
  CHECK(find_error(find_file("grey.png"), 4) == "x: PNG: has 2 channels with alpha" + four);
  CHECK(find_error(find_file("rgb.png"), 5) ==
        "x: PNG: has 4 channels with alpha; data.channels: 5 needs TIFF files with 5 bands");
  // Without alpha.
  const std::string seeds = "test/fuzz/seeds/images/";
  const auto read_seed = [&](const std::string& name) {
    std::ifstream file(test::source_file(seeds + name), std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(file), {});
  };
  CHECK(find_error(read_seed("rgb.png"), 4) == "x: PNG: has 3 channels" + four);
  CHECK(find_error(read_seed("lossless.webp"), 4) == "x: WebP: has 3 channels" + four);
  CHECK(find_error(read_seed("rgb.bmp"), 4) == "x: BMP: has 3 channels" + four);
  CHECK(find_error(read_seed("grey-progressive.jpg"), 2) ==
        "x: JPEG: has 1 channel; data.channels: 2 needs grey PNG files with alpha, or TIFF files "
        "with 2 bands");
}

TEST_CASE("PNG: a damaged chunk of transparent colours is an error") {
  Bytes file = find_file("transparent_colour.png");
  const std::string name = "tRNS";
  const auto found = std::search(file.begin(), file.end(), name.begin(), name.end());
  REQUIRE(found != file.end());
  *(found + 5) ^= 1;  // its checksum is then wrong
  CHECK(find_error(file, 4).find("x: PNG: is damaged: ") == 0);
}

}  // namespace trainer::data::alpha_test
