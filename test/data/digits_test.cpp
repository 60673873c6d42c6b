#include <doctest/doctest.h>

#include <cmath>

#include "base/files.h"
#include "data/array.h"
#include "idx_files.h"

namespace trainer::data {
namespace {

Bytes image_of(const Dataset& set, std::int64_t index) {
  Bytes image(784);
  std::int32_t label = -1;
  set.get(index, image.data(), &label);
  image.push_back(static_cast<std::uint8_t>(label));
  return image;
}

}  // namespace

TEST_CASE("the digits are the same every time, and a longer set starts with a shorter one") {
  const auto shorter = make_digits(false, 300), longer = make_digits(false, 700);
  for (std::int64_t i = 0; i < 300; ++i) CHECK(image_of(*shorter, i) == image_of(*longer, i));
  CHECK(shorter->fingerprint() == make_digits(false, 300)->fingerprint());
  CHECK(image_of(*make_digits(true, 1), 0) != image_of(*shorter, 0));
}

TEST_CASE("the digits neither write nor read files") {
  const TemporaryFolder folder;
  write_split(folder.path(), "train", 3, 2);
  config::Data config;
  config.format = config::DataFormat::kDigits;
  config.path = folder.path();
  CHECK(open_datasets(config, 1, "test").test->size() == 4000);
  CHECK(open_datasets(config, 1, "train").train->size() == 20000);
  const auto files = std::filesystem::directory_iterator(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 2);
}

TEST_CASE("the digits open as a data set of ten classes, with ink in the middle") {
  config::Data config;
  config.format = config::DataFormat::kDigits;
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.num_classes == 10);
  CHECK(sets.image_shape == Shape{28, 28, 1});

  // The mean images of two classes differ: there is something to learn.
  std::vector<std::vector<double>> mean(10, std::vector<double>(784));
  std::vector<int> counts(10);
  for (std::int64_t i = 0; i < 1000; ++i) {
    Bytes image(784);
    std::int32_t label = -1;
    sets.train->get(i, image.data(), &label);
    REQUIRE(label >= 0);
    REQUIRE(label < 10);
    ++counts[static_cast<std::size_t>(label)];
    int ink = 0;
    for (std::size_t p = 0; p < 784; ++p) {
      mean[static_cast<std::size_t>(label)][p] += image[p];
      ink += image[p] > 100;
    }
    CHECK(ink > 8);
    CHECK(ink < 400);
  }
  for (std::size_t a = 0; a < 10; ++a) {
    CHECK(counts[a] > 60);
    for (std::size_t b = 0; b < a; ++b) {
      double distance = 0;
      for (std::size_t p = 0; p < 784; ++p) {
        distance += std::abs(mean[a][p] / counts[a] - mean[b][p] / counts[b]);
      }
      CHECK(distance / 784 > 4);
    }
  }
}

}  // namespace trainer::data
