#include "data/open.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "base/error.h"
#include "data/arrays/idx_files.h"
#include "data/common_data.h"
#include "support/skip.h"

namespace trainer::data::open_test {
namespace {

config::Data build_config(const TemporaryFolder& folder) {
  config::Data config;
  config.path = folder.path();
  return config;
}

std::pair<Bytes, std::int32_t> sample(const Dataset& dataset, std::int64_t index) {
  Bytes image(static_cast<std::size_t>(dataset.spec().image_shape.elements()));
  std::int32_t label = -1;
  dataset.get(index, image.data(), &label);
  return {image, label};
}

}  // namespace

TEST_CASE("open_datasets finds both splits in a folder with the files of MNIST, plain or gzip") {
  for (const bool gzip : {false, true}) {
    const TemporaryFolder folder;
    write_split(folder.path(), "train", 20, 3, gzip);
    write_split(folder.path(), "t10k", 5, 3, gzip, 100);
    const Datasets sets = open_datasets(build_config(folder), 1);
    CHECK(sets.train->size() == 20);
    CHECK(sets.test->size() == 5);
    CHECK(sets.validation == nullptr);
    CHECK(sets.classes == std::vector<std::string>{"0", "1", "2"});
    CHECK(sets.num_classes == 3);
    CHECK(sets.image_shape == Shape{4, 3, 1});
    CHECK(sets.image_type == DType::kUInt8);
    CHECK(sets.label_is_index);
    CHECK(sample(*sets.train, 4) == std::pair(Bytes(12, 28), 1));
    CHECK(sample(*sets.test, 2) == std::pair(Bytes(12, 114), 2));
  }
}

TEST_CASE("open_datasets does not read the files of the other splits for one split") {
  const TemporaryFolder folder;
  write_split(folder.path(), "train", 20, 3);
  write_file_atomic(folder.path() / "t10k-images-idx3-ubyte", "damaged");
  write_file_atomic(folder.path() / "t10k-labels-idx1-ubyte", "damaged");
  CHECK_THROWS_AS(open_datasets(build_config(folder), 1), DataError);
  const Datasets sets = open_datasets(build_config(folder), 1, Split::kTrain);
  CHECK(sets.train->size() == 20);
  CHECK(sets.test == nullptr);
}

TEST_CASE("open_datasets: a missing split is null if optional, and an error if requested") {
  const TemporaryFolder folder;
  write_split(folder.path(), "train", 20, 3);
  CHECK(open_datasets(build_config(folder), 1).test == nullptr);
  CHECK_THROWS_WITH_AS(open_datasets(build_config(folder), 1, Split::kTest),
                       doctest::Contains("there is no test split"), DataError);
  std::filesystem::remove(folder.path() / "train-labels-idx1-ubyte");
  CHECK_THROWS_WITH_AS(open_datasets(build_config(folder), 1),
                       doctest::Contains("train-labels-idx1-ubyte[.gz]: no such file"), DataError);
  CHECK_THROWS_WITH_AS(open_datasets(build_config(folder), 1),
                       doctest::Contains("datasets/mnist.sh"), DataError);
}

TEST_CASE("open_datasets opens both splits of files given one by one") {
  const TemporaryFolder folder;
  write_split(folder.path(), "some", 6, 2);
  config::Data config;
  config.train.images = folder.path() / "some-images-idx3-ubyte";
  config.train.labels = folder.path() / "some-labels-idx1-ubyte";
  CHECK(open_datasets(config, 1).train->size() == 6);
  std::swap(config.train.images, config.train.labels);
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("swapped"), DataError);
  config.train.labels.clear();
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("both"), ConfigError);
}

TEST_CASE("open_datasets rejects a label outside the classes") {
  const TemporaryFolder folder;
  write_split(folder.path(), "train", 20, 3);
  write_split(folder.path(), "t10k", 10, 5);
  config::Data config = build_config(folder);
  CHECK_THROWS_WITH_AS(open_datasets(config, 1),
                       doctest::Contains("t10k-labels-idx1-ubyte: sample 3 has the label 3, but "
                                         "there are 3 classes"),
                       DataError);
  config.num_classes = 7;
  CHECK(open_datasets(config, 1).classes.size() == 7);
  config.classes = {"a", "b"};
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("num_classes is 7"),
                       ConfigError);
  config.num_classes.reset();
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("sample 2 has the label 2"),
                       DataError);
  config.classes = {"a", "b", "c", "d", "e"};
  CHECK(open_datasets(config, 1).classes == config.classes);
}

TEST_CASE("open_datasets rejects images, labels or splits that differ in size") {
  const TemporaryFolder folder;
  write_split(folder.path(), "train", 20, 3);
  write_file_atomic(folder.path() / "train-labels-idx1-ubyte", idx_bytes(8, {19}, Bytes(19)));
  CHECK_THROWS_WITH_AS(open_datasets(build_config(folder), 1),
                       doctest::Contains("contains 19 labels"), DataError);
  write_split(folder.path(), "train", 20, 3);
  write_file_atomic(folder.path() / "t10k-images-idx3-ubyte", idx_bytes(8, {2, 4, 4}, Bytes(32)));
  write_file_atomic(folder.path() / "t10k-labels-idx1-ubyte", idx_bytes(8, {2}, Bytes(2)));
  CHECK_THROWS_WITH_AS(open_datasets(build_config(folder), 1), doctest::Contains("[4, 4, 1]"),
                       DataError);
  write_file_atomic(folder.path() / "train-images-idx3-ubyte", idx_bytes(8, {0, 4, 3}, {}));
  write_file_atomic(folder.path() / "train-labels-idx1-ubyte", idx_bytes(8, {0}, {}));
  CHECK_THROWS_WITH_AS(open_datasets(build_config(folder), 1),
                       doctest::Contains("contains no elements: its header gives 0"), DataError);
}

TEST_CASE("fingerprint differs for another content, and is the same for gzip") {
  const auto fingerprint = [](std::uint32_t count, bool gzip, std::uint8_t role) {
    const TemporaryFolder folder;
    write_split(folder.path(), "train", count, 3, gzip, role);
    return open_datasets(build_config(folder), 1).train->fingerprint();
  };
  CHECK(fingerprint(20, false, 0) == fingerprint(20, true, 0));
  CHECK(fingerprint(20, false, 0) != fingerprint(21, false, 0));
  CHECK(fingerprint(20, false, 0) != fingerprint(20, false, 1));
}

TEST_CASE("common_data: a change of any byte or label of a split gives another text") {
  const auto common = [](std::size_t change, std::uint8_t label, bool evaluation) {
    const TemporaryFolder folder;
    write_split(folder.path(), "train", 20, 3);
    Bytes images(30 * 12, 7), labels(30, 1);
    if (change < images.size()) images[change] ^= 1;
    labels[29] = label;
    write_file_atomic(folder.path() / "t10k-images-idx3-ubyte", idx_bytes(8, {30, 4, 3}, images));
    write_file_atomic(folder.path() / "t10k-labels-idx1-ubyte", idx_bytes(8, {30}, labels));
    return common_data(open_datasets(build_config(folder), 1), evaluation);
  };
  const std::size_t none = 1000;
  const std::string same = common(none, 1, true);
  CHECK(common(none, 1, true) == same);
  for (const std::size_t byte : {0, 100, 359}) {
    CAPTURE(byte);
    CHECK(common(byte, 1, true) != same);
    CHECK(common(byte, 1, false) == common(none, 1, false));
  }
  const std::string other = common(none, 2, true);
  CHECK(other.substr(0, other.find("test labels")) == same.substr(0, same.find("test labels")));
  CHECK(other.substr(other.find("test labels")) != same.substr(same.find("test labels")));
  CHECK(same.find("train samples: 20\n") != std::string::npos);
  CHECK(same.find("validation samples: none\n") != std::string::npos);
}

TEST_CASE("common_data: the indices of the samples count for a part of an array set") {
  const auto common = [](std::uint64_t seed, double split) {
    const TemporaryFolder folder;
    write_split(folder.path(), "train", 200, 3);
    config::Data config = build_config(folder);
    config.validation_split = split;
    return common_data(open_datasets(config, seed), true);
  };
  CHECK(common(1, 0.2) == common(1, 0.2));
  CHECK(common(1, 0.2) != common(2, 0.2));
  CHECK(common(1, 0.2) != common(1, 0.3));
}

TEST_CASE("synthetic images are a function of seed, split and index") {
  config::Data config;
  config.format = config::DataFormat::kSynthetic;
  config.synthetic = {{32, 32, 3}, 7, 100, 10};
  const Datasets a = open_datasets(config, 1);
  const Datasets b = open_datasets(config, 1);
  const Datasets c = open_datasets(config, 2);
  CHECK(a.train->size() == 100);
  CHECK(a.test->size() == 10);
  CHECK(a.num_classes == 7);
  CHECK(a.image_shape == Shape{32, 32, 3});
  CHECK(sample(*a.train, 5) == sample(*b.train, 5));
  CHECK(sample(*a.train, 5) != sample(*a.train, 6));
  CHECK(sample(*a.train, 5) != sample(*a.test, 5));
  CHECK(sample(*a.train, 5) != sample(*c.train, 5));
  std::vector<int> counts(7);
  for (std::int64_t i = 0; i < 100; ++i) {
    const std::int32_t label = sample(*a.train, i).second;
    CHECK(a.train->label_at(i) == label);
    ++counts.at(static_cast<std::size_t>(label));
  }
  for (const int count : counts) CHECK(count > 0);
}

TEST_CASE("open_datasets: the real MNIST files have their sizes and first samples") {
  const char* shared = std::getenv("TRAINER_SHARED_DATA");
  if (shared == nullptr || !std::filesystem::exists(Path(shared) / "mnist")) {
    TRAINER_SKIP("TRAINER_SHARED_DATA names no folder with mnist");
  }
  config::Data config;
  config.path = Path(shared) / "mnist";
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.train->size() == 60000);
  CHECK(sets.test->size() == 10000);
  CHECK(sets.num_classes == 10);
  // The first training image is a five; the first test image a seven.
  CHECK(sample(*sets.train, 0).second == 5);
  CHECK(sample(*sets.test, 0).second == 7);
}

}  // namespace trainer::data::open_test
