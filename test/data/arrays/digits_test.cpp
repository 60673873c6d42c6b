#include "data/arrays/digits.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/files/files.h"
#include "data/open.h"

namespace trainer::data {
namespace {

std::string digest(const Path& path) {
  Sha256 sha;
  sha.update(read_file(path));
  return sha.hex();
}

// The sum of a file's bytes, each with a sign drawn for its place: pixels that differ by one here
// and there change it by little, a sine that is wrong by a hundredth changes it by hundreds.
std::int64_t signed_sum(const Path& path) {
  std::int64_t sum = 0;
  std::uint32_t state = 1;
  for (const std::uint8_t byte : read_file(path)) {
    state = state * 1664525 + 1013904223;
    sum += state >> 31 == 0 ? byte : -byte;
  }
  return sum;
}

}  // namespace

TEST_CASE(
    "generate_digits: equal calls give equal files, and a longer set starts with a shorter one") {
  const TemporaryFolder folder;
  const Path a = folder.path() / "a";
  const Path b = folder.path() / "b";
  generate_digits(a, 300, 50);
  generate_digits(b, 400, 50);
  CHECK(digest(a / "t10k-images-idx3-ubyte") == digest(b / "t10k-images-idx3-ubyte"));
  CHECK(digest(a / "t10k-labels-idx1-ubyte") == digest(b / "t10k-labels-idx1-ubyte"));
  const Bytes shorter = read_file(a / "train-images-idx3-ubyte");
  const Bytes longer = read_file(b / "train-images-idx3-ubyte");
  CHECK(std::equal(shorter.begin() + 16, shorter.end(), longer.begin() + 16));
}

// Results that were reported hold for these digits. A libm whose sinf() and cosf() differ in the
// last bit changes about three pixels by one, so that images are compared by their signed sums.
TEST_CASE("generate_digits: the default sizes give the digits of the reported results") {
  const TemporaryFolder folder;
  generate_digits(folder.path(), 500, 100);
  CHECK(std::abs(signed_sum(folder.path() / "train-images-idx3-ubyte") + 19701) < 10);
  CHECK(digest(folder.path() / "train-labels-idx1-ubyte") ==
        "c67820c8d58574aafb35272dd67aa56b2c37ceed2e4c5b35ed27c04e9641342d");
  CHECK(std::abs(signed_sum(folder.path() / "t10k-images-idx3-ubyte") + 3102) < 10);
  CHECK(digest(folder.path() / "t10k-labels-idx1-ubyte") ==
        "dc213b6bafe7fd32e6cac77770daaacecdb1b012b0f2bef16cd81e35dcef0843");
}

// Vertical strokes lean by the shear and the angle alone, to both sides alike.
TEST_CASE("generate_digits: a one is upright") {
  const TemporaryFolder folder;
  generate_digits(folder.path(), 1000, 1);
  const Bytes images = read_file(folder.path() / "train-images-idx3-ubyte");
  const Bytes labels = read_file(folder.path() / "train-labels-idx1-ubyte");
  double all = 0, count = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    if (labels[8 + i] != 1) continue;
    double ink = 0, x = 0, y = 0, xy = 0, yy = 0;
    for (std::size_t p = 0; p < 784; ++p) {
      if (images[16 + i * 784 + p] < 100) continue;
      const auto column = static_cast<double>(p % 28), row = static_cast<double>(p / 28);
      ink += 1;
      x += column;
      y += row;
      xy += column * row;
      yy += row * row;
    }
    const double slope = (xy - x * y / ink) / (yy - y * y / ink);
    CHECK(std::abs(slope) < 0.8);  // 0.3 of shear, 0.3 of angle, bends and jitter
    CHECK(yy / ink - y * y / (ink * ink) > 16);
    all += slope;
    ++count;
  }
  CHECK(std::abs(all / count) < 0.1);
}

TEST_CASE("generate_digits leaves existing files unchanged") {
  const TemporaryFolder folder;
  generate_digits(folder.path(), 30, 10);
  const auto before = std::filesystem::last_write_time(folder.path() / "train-images-idx3-ubyte");
  generate_digits(folder.path(), 40, 10);
  CHECK(std::filesystem::last_write_time(folder.path() / "train-images-idx3-ubyte") == before);
  std::filesystem::remove(folder.path() / "t10k-labels-idx1-ubyte");
  generate_digits(folder.path(), 30, 10);
  CHECK(std::filesystem::exists(folder.path() / "t10k-labels-idx1-ubyte"));
}

TEST_CASE("generate_digits writes nothing where another set has the same names") {
  const TemporaryFolder folder;
  for (const std::string part : {"train", "t10k"}) {
    for (const std::string name : {"-images.idx3-ubyte", "-labels-idx1-ubyte.gz"}) {
      write_file_atomic(folder.path() / (part + name), "another set");
    }
  }
  generate_digits(folder.path(), 30, 10);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "train-images-idx3-ubyte"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "t10k-images-idx3-ubyte"));
}

TEST_CASE("open_datasets draws the digits in memory for a config that must not write") {
  const TemporaryFolder folder;
  config::Data config;
  config.format = config::DataFormat::kDigits;
  config.path = folder.path() / "digits";
  config.folders = config::FolderAccess::kReadOnly;
  const Datasets drawn = open_datasets(config, 1);
  CHECK_FALSE(std::filesystem::exists(config.path));
  config.folders = config::FolderAccess::kReadWrite;
  const Datasets read = open_datasets(config, 1);
  CHECK(std::filesystem::exists(config.path));
  CHECK(drawn.train->size() == kTrainDigits);
  CHECK(drawn.train->fingerprint() == read.train->fingerprint());
  CHECK(drawn.test->fingerprint() == read.test->fingerprint());
  CHECK(drawn.validation == nullptr);
}

TEST_CASE("generate_digits: a file of another set whose second file is missing is an error") {
  for (const std::string part : {"train", "t10k"}) {
    for (const std::string name : {"-images-idx3-ubyte", "-labels-idx1-ubyte", "-images.idx3-ubyte",
                                   "-labels-idx1-ubyte.gz"}) {
      CAPTURE(part + name);
      const TemporaryFolder folder;
      const Path file = folder.path() / (part + name);
      write_file_atomic(file, "another set");
      CHECK_THROWS_WITH_AS(generate_digits(folder.path(), 30, 10),
                           doctest::Contains("belongs to another data set"), DataError);
      CHECK(read_text_file(file) == "another set");
      const std::string other = name.find("images") != std::string::npos ? "labels" : "images";
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        const std::string found = entry.path().filename().string();
        CHECK_FALSE((found.starts_with(part) && found.find(other) != std::string::npos));
      }
    }
  }
}

TEST_CASE("generate_digits completes a part of which a killed process wrote one file") {
  const TemporaryFolder folder;
  generate_digits(folder.path(), 30, 10);
  const std::string images = digest(folder.path() / "train-images-idx3-ubyte");
  std::filesystem::remove(folder.path() / "train-images-idx3-ubyte");
  std::filesystem::remove(folder.path() / "t10k-labels-idx1-ubyte");
  generate_digits(folder.path(), 30, 10);
  CHECK(digest(folder.path() / "train-images-idx3-ubyte") == images);
  CHECK(std::filesystem::exists(folder.path() / "t10k-labels-idx1-ubyte"));
}

TEST_CASE("open_datasets: digits have ten classes with ink in the middle") {
  const TemporaryFolder folder;
  generate_digits(folder.path(), 1000, 100);
  config::Data config;
  config.format = config::DataFormat::kDigits;
  config.path = folder.path();
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.train->size() == 1000);
  CHECK(sets.test->size() == 100);
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
