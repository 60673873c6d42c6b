// fit: pad, which centres an image between black borders.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "data/decode/encoded_jpeg.h"
#include "data/images/image_files.h"
#include "data/images/image_reader.h"
#include "data/images/pillow_image.h"
#include "data/open.h"
#include "data/open_images.h"
#include "support/source_files.h"

namespace trainer::data::pad_test {
namespace {

config::Data pad_config(int height, int width, int channels) {
  config::Data config;
  config.resize = {height, width};
  config.channels = channels;
  config.fit = config::Fit::kPad;
  return config;
}

Bytes pad(const config::Data& config, const Pixels& image) {
  const ImageReader reader(config);
  Bytes out(reader.image_bytes(), 99);
  const Geometry geometry =
      fit_geometry(image.height(), image.width(), reader.height(), reader.width(), config.fit, 1);
  reader.resize(image, geometry, out.data());
  return out;
}

}  // namespace

TEST_CASE(
    "fit pad has the pixels of Pillow's ImageOps.pad within one level, and exactly its borders") {
  std::istringstream table(read_text_file(test::source_file("test/data/images/pillow_pad.txt")));
  std::string name;
  int channels = 0, height = 0, width = 0, out_height = 0, out_width = 0, cases = 0;
  while (table >> name >> channels >> height >> width >> out_height >> out_width) {
    CAPTURE(concat(name, ' ', channels, ' ', height, ' ', width, ' ', out_height, ' ', out_width));
    config::Data config = pad_config(out_height, out_width, channels);
    if (name == "bicubic") config.interpolation = config::Interpolation::kBicubic;
    int worst = 0, wrong_borders = 0;
    for (const std::uint8_t value : pad(config, make_pillow_image(height, width, channels))) {
      int expected = -1;
      table >> expected;
      worst = std::max(worst, std::abs(expected - value));
      if ((expected == 0) != (value == 0)) ++wrong_borders;  // the image has no pixel below 64
    }
    CHECK(worst <= 1);
    CHECK(wrong_borders == 0);
    ++cases;
  }
  CHECK(cases == 32);
}

TEST_CASE("fit pad: one column or row remains of an image of any length") {
  const Bytes wide = pad(pad_config(5, 4, 1), make_pillow_image(1, 1000, 1));
  for (std::size_t i = 0; i < wide.size(); ++i) CHECK((wide[i] != 0) == (i / 4 == 2));
  const Bytes high = pad(pad_config(4, 5, 1), make_pillow_image(1000, 1, 1));
  for (std::size_t i = 0; i < high.size(); ++i) CHECK((high[i] != 0) == (i % 5 == 2));
}

TEST_CASE("fit pad: a grey image of an RGB data set has black borders in all channels") {
  const Bytes image = pad(pad_config(6, 4, 3), make_pillow_image(4, 4, 1));
  for (int i = 0; i < 6 * 4 * 3; ++i) {
    CHECK((image[static_cast<std::size_t>(i)] == 0) == (i / 12 == 0 || i / 12 == 5));
  }
}

TEST_CASE("fit pad has the same borders in training, evaluation, prediction and scaled decoding") {
  const TemporaryFolder folder;
  Random random(3, Stream::kSynthetic);
  const Bytes jpeg = encode_jpeg({64, 128, 3}, 90, random);
  for (const char* split : {"train", "test"}) {
    for (const char* name : {"cat", "dog"}) {
      fs::create_directories(folder.path() / split / name);
      write_file_atomic(folder.path() / split / name / "a.jpg", jpeg);
    }
  }
  config::Data config = build_config(folder.path());
  config.resize = {16, 16};
  config.channels = 3;
  config.fit = config::Fit::kPad;
  const Datasets sets = open_datasets(config, 1);
  const Bytes image = load_image(*sets.train, 0);
  CHECK(load_image(*sets.train, 0, 3) == image);
  CHECK(load_image(*sets.test, 1) == image);
  const std::string file = (folder.path() / "test/cat/a.jpg").string();
  CHECK(load_image(*open_image_files(config, {file}, false).dataset, 0) == image);
  config.cache = config::ImageCache::kMemory;
  const Datasets cached = open_datasets(config, 1);
  CHECK(load_image(*cached.train, 0) == image);
  CHECK(load_image(*cached.train, 0) == image);

  // 64 x 128 becomes 8 x 16 between rows 4 and 12; a half of it is enough for decoding at 1/8.
  const ImageReader reader(config);
  CHECK(reader.decode(fs::path(file), ImageReader::Scale::kReduced).reduce == 8);
  config.cache = config::ImageCache::kNone;
  config.scaled_decode = false;
  const Bytes full = load_image(*open_datasets(config, 1).train, 0);
  int worst = 0;
  for (std::size_t i = 0; i < image.size(); ++i) {
    const std::size_t row = i / (16 * 3);
    if (row < 4 || row >= 12) {
      CHECK(image[i] == 0);
      CHECK(full[i] == 0);
    } else {
      worst = std::max(worst, std::abs(int{image[i]} - int{full[i]}));
    }
  }
  CHECK(worst > 0);
  CHECK(worst < 64);
}

TEST_CASE("fit pad: random_resized_crop replaces it in training only") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  config::Data config = build_config(folder.path());
  config.fit = config::Fit::kPad;
  const Bytes padded = load_image(*open_datasets(config, 1).train, 0);
  config.train.augment = {{config::RandomResizedCrop{}, {}}};
  const Datasets sets = open_datasets(config, 1);
  CHECK(load_image(*sets.train, 0) == padded);
  CHECK(load_image(*sets.train, 0, 0) != padded);
}

}  // namespace trainer::data::pad_test
