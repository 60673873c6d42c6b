#include "data/images/value_range.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "data/check.h"
#include "data/images/deep_files.h"
#include "data/images/image_files.h"
#include "data/images/image_reader.h"
#include "data/images/listing/folders.h"
#include "data/open_images.h"

namespace trainer::data::value_range_test {
namespace {

// The bytes of a file with this range and as many channels as it has or is asked for.
Bytes read(const fs::path& path, std::optional<config::ValueRange> range, int channels = 1) {
  config::Data config;
  config.range = range;
  config.channels = channels;
  config.resize = {1, 1};
  const ImageReader reader(config);
  const auto decoded = reader.decode(path, ImageReader::Scale::kFull);
  CHECK(decoded.warning.empty());
  return {decoded.pixels.data(), decoded.pixels.data() + decoded.pixels.size()};
}

std::string find_error(const fs::path& path, int channels) {
  try {
    read(path, std::nullopt, channels);
  } catch (const DataError& error) {
    return std::string(error.what()).substr(path.string().size() + 2);
  }
  return "";
}

std::vector<std::uint16_t> count_up(int count, int step) {
  std::vector<std::uint16_t> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<std::uint16_t>(i * step));
  return values;
}

// A data set of two classes with grey 16-bit files.
config::Data write_set(const fs::path& folder, const std::vector<std::uint16_t>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    write_png(folder / (i % 2 == 0 ? "a" : "b") / concat(i, ".png"), {1, 2, 1, {values[i], 0}},
              PNG_COLOR_TYPE_GRAY);
  }
  config::Data config = build_config(folder);
  config.resize = {1, 2};
  config.channels = 1;
  return config;
}

}  // namespace

TEST_CASE("data.range: all levels are used of 12 bits in 16-bit grey PNG and TIFF files") {
  const TemporaryFolder folder;
  const DeepImage image{2, 3, 1, {0, 8, 2048, 4094, 4095, 65535}};
  write_png(folder.path() / "x.png", image, PNG_COLOR_TYPE_GRAY);
  write_tiff(folder.path() / "x.tif", image);
  write_tiff(folder.path() / "tiles.tif", image, {.tile = 16});
  for (const std::string name : {"x.png", "x.tif", "tiles.tif"}) {
    CAPTURE(name);
    const fs::path path = folder.path() / name;
    CHECK(read(path, std::nullopt) == Bytes{0, 0, 8, 15, 15, 255});  // the upper bytes
    CHECK(read(path, config::ValueRange{false, 0, 4095}) == Bytes{0, 0, 128, 255, 255, 255});
    CHECK(read(path, config::ValueRange{false, 0, 65535}) == Bytes{0, 0, 8, 16, 16, 255});
    CHECK(read(path, config::ValueRange{false, 8, 2048}) == Bytes{0, 0, 255, 255, 255, 255});
    CHECK(read(path, config::ValueRange{false, 2047, 2049}) == Bytes{0, 0, 128, 255, 255, 255});
  }
}

TEST_CASE("data.range applies to colours, alpha, planes and inverted grey of 16-bit files") {
  const TemporaryFolder folder;
  const config::ValueRange range{false, 0, 4095};
  const DeepImage rgb{1, 2, 3, {0, 2048, 4095, 819, 1638, 2457}};
  const Bytes expected{0, 128, 255, 51, 102, 153};
  write_png(folder.path() / "rgb.png", rgb, PNG_COLOR_TYPE_RGB);
  write_tiff(folder.path() / "rgb.tif", rgb, {.photometric = PHOTOMETRIC_RGB});
  write_tiff(folder.path() / "planes.tif", rgb,
             {.photometric = PHOTOMETRIC_RGB, .is_planar = true});
  for (const char* name : {"rgb.png", "rgb.tif", "planes.tif"}) {
    CAPTURE(name);
    CHECK(read(folder.path() / name, range, 3) == expected);
  }
  const DeepImage rgba{1, 1, 4, {819, 1638, 2457, 60000}};
  write_png(folder.path() / "rgba.png", rgba, PNG_COLOR_TYPE_RGB_ALPHA);
  write_tiff(folder.path() / "rgba.tif", rgba,
             {.photometric = PHOTOMETRIC_RGB, .extra = {EXTRASAMPLE_UNASSALPHA}});
  CHECK(read(folder.path() / "rgba.png", range, 3) == Bytes{51, 102, 153});
  CHECK(read(folder.path() / "rgba.tif", range, 3) == Bytes{51, 102, 153});
  // Multiplied by an alpha of a half: 819 becomes 1638.
  write_tiff(folder.path() / "half.tif", {1, 1, 4, {819, 1638, 0, 32767}},
             {.photometric = PHOTOMETRIC_RGB, .extra = {EXTRASAMPLE_ASSOCALPHA}});
  CHECK(read(folder.path() / "half.tif", range, 3) == Bytes{102, 204, 0});
  write_tiff(folder.path() / "white.tif", {1, 3, 1, {0, 819, 4095}},
             {.photometric = PHOTOMETRIC_MINISWHITE});
  CHECK(read(folder.path() / "white.tif", range) == Bytes{255, 204, 0});
  // Files of 8 bits keep their values.
  write_tiff(folder.path() / "bytes.tif", {1, 2, 1, {10, 200}}, {.bits = 8});
  CHECK(read(folder.path() / "bytes.tif", range) == Bytes{10, 200});
}

TEST_CASE("measure_values leaves out files beyond the limit of pixels") {
  const TemporaryFolder folder;
  const config::Data data = write_set(folder.path(), {100, 200, 300, 400});  // 2 pixels each
  config::SplitFiles split;
  split.path = folder.path().string();
  const ImageList list = list_folder(split, {"a", "b"});
  const auto measure = [&](std::int64_t max_pixels) {
    const MeasuredValues measured = measure_values(list, data, 16, max_pixels);
    CHECK(measured.files == 4);
    return std::pair(measured.files_16, measured.max);
  };
  CHECK(measure(8).first == 4);
  CHECK(measure(8).second == 400);
  CHECK(measure(7).first == 3);
  CHECK(measure(1).first == 1);  // one file is always measured
}

TEST_CASE("data.channels: TIFF files of 8 and 16 bits have as many bands, in strips and tiles") {
  const TemporaryFolder folder;
  constexpr int kHeight = 3, kWidth = 5;
  for (const int bands : {2, 4, 13}) {
    for (const int bits : {8, 16}) {
      for (const bool is_planar : {false, true}) {
        for (const int tile : {0, 16}) {
          CAPTURE(concat(bands, " bands, ", bits, " bits, planar ", is_planar, ", tile ", tile));
          const int count = kHeight * kWidth * bands;
          const DeepImage image{kHeight, kWidth, bands, count_up(count, bits == 8 ? 1 : 300)};
          const fs::path path = folder.path() / "x.tif";
          write_tiff(path, image,
                     {.bits = bits,
                      .is_planar = is_planar,
                      .tile = tile,
                      .extra = std::vector<std::uint16_t>(static_cast<std::size_t>(bands) - 1,
                                                          EXTRASAMPLE_UNSPECIFIED)});
          Bytes expected, scaled;
          for (const int value : image.values) {
            expected.push_back(static_cast<std::uint8_t>(bits == 8 ? value : value / 256));
            const double level = std::min(value, 30000) * 255.0 / 30000;
            scaled.push_back(static_cast<std::uint8_t>(bits == 8 ? value : level + 0.5));
          }
          CHECK(read(path, std::nullopt, bands) == expected);
          CHECK(read(path, config::ValueRange{false, 0, 30000}, bands) == scaled);
          CHECK(find_error(path, bands + 2) ==
                concat("TIFF: has ", bands, " bands; data.channels asks for ", bands + 2));
          CHECK(
              find_error(path, 1).starts_with(concat("TIFF: has ", bands, " bands; grey images")));
          CHECK(find_error(path, 1).find(concat("Give data.channels: ", bands, ", or extract")) !=
                std::string::npos);
        }
      }
    }
  }
  // RGB with alpha gives all four bands as they are.
  const fs::path rgba = folder.path() / "rgba.tif";
  write_tiff(rgba, {1, 1, 4, {10, 100, 200, 50}},
             {.bits = 8, .photometric = PHOTOMETRIC_RGB, .extra = {EXTRASAMPLE_ASSOCALPHA}});
  CHECK(read(rgba, std::nullopt, 4) == Bytes{10, 100, 200, 50});
  CHECK(find_error(rgba, 5) == "TIFF: has 4 bands; data.channels asks for 5");
  write_png(folder.path() / "x.png", {1, 1, 1, {5}}, PNG_COLOR_TYPE_GRAY);
  CHECK(
      find_error(folder.path() / "x.png", 4) ==
      "PNG: has 1 channel; data.channels: 4 needs PNG or WebP files in colour with alpha, or TIFF "
      "files with 4 bands");
}

TEST_CASE("data.channels: images of 13 bands are resized band by band, and train and evaluate") {
  const TemporaryFolder folder;
  constexpr int kSide = 12, kBands = 13;
  std::vector<std::uint16_t> values;
  for (int i = 0; i < kSide * kSide * kBands; ++i) {
    values.push_back(static_cast<std::uint16_t>((i * 37) % 251));
  }
  const TiffOptions options{.bits = 8, .extra = std::vector<std::uint16_t>(kBands - 1, 0)};
  write_tiff(folder.path() / "a/x.tif", {kSide, kSide, kBands, values}, options);
  write_tiff(folder.path() / "b/x.tif", {kSide, kSide, kBands, values}, options);
  config::Data config = build_config(folder.path());
  config.channels = kBands;
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.image_shape == Shape{8, 6, kBands});
  const auto image = load_image(*sets.train, 0);
  for (const int band : {0, 7, 12}) {
    CAPTURE(band);
    std::vector<std::uint16_t> single;
    for (int i = 0; i < kSide * kSide; ++i) {
      single.push_back(values[static_cast<std::size_t>(i * kBands + band)]);
    }
    const TemporaryFolder other;
    const fs::path path = other.path() / "x.tif";
    write_tiff(path, {kSide, kSide, 1, single}, {.bits = 8});
    config::Data grey = config;
    grey.channels = 1;
    const auto one = load_image(*open_image_files(grey, {path.string()}, false).dataset, 0);
    for (std::size_t i = 0; i < one.size(); ++i) {
      CHECK(one[i] == image[i * kBands + static_cast<std::size_t>(band)]);
    }
  }
  CHECK(check_images(config, 1, "").splits[0].damaged.empty());
  config.channels = 3;
  CHECK(check_images(config, 1, "").splits[0].damaged.size() == 2);
}

TEST_CASE("data.range: auto is the smallest 2^n - 1 that no measured value exceeds") {
  const auto choose = [](int max) { return choose_range({1, 1, max})->high; };
  CHECK(!choose_range({5, 0, 0}));
  CHECK(choose(0) == 255);
  CHECK(choose(255) == 255);
  CHECK(choose(256) == 511);
  CHECK(choose(4095) == 4095);
  CHECK(choose(4096) == 8191);
  CHECK(choose(32768) == 65535);
  CHECK(choose(65535) == 65535);

  const TemporaryFolder folder;
  config::Data config = write_set(folder.path() / "train", {1000, 3000, 2047});
  config.path = folder.path();
  write_set(folder.path() / "test", {4095, 2047});
  config.range = config::ValueRange{.is_automatic = true};
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.range == config::ValueRange{false, 0, 4095});
  CHECK(sets.range_notice.text ==
        "data.range: auto takes [0, 4095]; the largest value of 3 measured 16-bit files is 3000");
  CHECK(sets.range_notice.kind == Notice::Kind::kNote);
  CHECK(load_image(*sets.train, 0) == std::vector<std::uint8_t>{62, 0});  // 1000
  // The test split alone takes the range of training, and its larger values are cut.
  const Datasets test = open_datasets(config, 1, Split::kTest);
  CHECK(test.range == config::ValueRange{false, 0, 4095});
  CHECK(load_image(*test.test, 0) == std::vector<std::uint8_t>{255, 0});
  CHECK(load_image(*test.test, 1) == std::vector<std::uint8_t>{127, 0});
  CHECK_THROWS_WITH_AS(open_image_files(config, {(folder.path() / "test/a/0.png").string()}, false),
                       doctest::Contains("data.range: auto is found in the training split"),
                       ConfigError);
  // Files of many bands.
  const TiffOptions options{.extra = {0, 0, 0, 0}};
  for (const char* name : {"a", "b"}) {
    write_tiff(folder.path() / "bands" / name / "x.tif", {1, 1, 5, {0, 1000, 2000, 900, 4095}},
               options);
  }
  config::Data bands = build_config(folder.path() / "bands");
  bands.resize = {1, 1};
  bands.channels = 5;
  bands.range = config::ValueRange{.is_automatic = true};
  const Datasets many = open_datasets(bands, 1);
  CHECK(many.range == config::ValueRange{false, 0, 4095});
  CHECK(load_image(*many.train, 0) == std::vector<std::uint8_t>{0, 62, 125, 56, 255});
  // No file has 16 bits.
  write_folder(folder.path() / "bytes", 2);
  config::Data bytes = build_config(folder.path() / "bytes");
  bytes.range = config::ValueRange{.is_automatic = true};
  CHECK(!open_datasets(bytes, 1).range);
  CHECK(open_datasets(bytes, 1).range_notice.text.empty());
}

TEST_CASE("data.range: the range that is used is reported, with a warning where levels are lost") {
  const TemporaryFolder folder;
  config::Data config = write_set(folder.path(), {100, 4095});
  const auto notes = [&] { return check_images(config, 1, "").splits[0].notes; };
  Datasets sets = open_datasets(config, 1);
  const std::string lost =
      "16-bit files: the range [0, 65535] is used, but the largest value of 2 measured 16-bit "
      "files "
      "is 4095, so that 16 of 256 grey levels remain; give data.range: [0, 4095] or data.range: "
      "auto";
  CHECK(sets.range_notice.text == lost);
  CHECK(sets.range_notice.kind == Notice::Kind::kWarning);
  CHECK(notes() == std::vector<std::string>{lost});
  const std::string before = sets.train->fingerprint();
  config.range = config::ValueRange{false, 0, 4095};
  sets = open_datasets(config, 1);
  CHECK(sets.range_notice.text ==
        "data.range: [0, 4095]; the largest value of 2 measured 16-bit files is 4095");
  CHECK(notes() == std::vector<std::string>{sets.range_notice.text});
  CHECK(sets.train->fingerprint() != before);
  config.range = config::ValueRange{.is_automatic = true};
  CHECK(notes() == std::vector<std::string>{"data.range: auto takes [0, 4095]; the largest value "
                                            "of 2 measured 16-bit files is 4095"});
  config = write_set(folder.path(), {100, 65000});
  CHECK(open_datasets(config, 1).range_notice.kind == Notice::Kind::kNote);
  CHECK(open_datasets(config, 1).range_notice.text ==
        "16-bit files: the range [0, 65535] is used; the largest value of 2 measured 16-bit files "
        "is 65000");
}

}  // namespace trainer::data::value_range_test
