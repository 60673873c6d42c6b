#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "data/arrays/idx_files.h"
#include "data/open.h"
#include "data/samples/splits.h"

namespace trainer::data {
namespace {

// With fewer than 36 samples the pixel identifies the sample: 7 * index.
std::vector<int> samples(const Dataset& dataset) {
  std::vector<int> result;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    Bytes image(12);
    std::int32_t label = 0;
    dataset.get(i, image.data(), &label);
    result.push_back(image[0] / 7);
  }
  return result;
}

struct Fixture {
  Fixture() {
    write_split(folder.path(), "train", 30, 3);
    config.path = folder.path();
  }
  TemporaryFolder folder;
  config::Data config;
};

}  // namespace

TEST_CASE_FIXTURE(
    Fixture, "split_off returns disjoint and complete parts, which are a function of the seed") {
  config.validation_split = 0.2;
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.train->size() == 24);
  CHECK(sets.validation->size() == 6);
  const auto train = samples(*sets.train);
  const auto validation = samples(*sets.validation);
  std::set<int> all(train.begin(), train.end());
  all.insert(validation.begin(), validation.end());
  CHECK(all.size() == 30);
  CHECK(samples(*open_datasets(config, 1).validation) == validation);
  CHECK(samples(*open_datasets(config, 2).validation) != validation);
  CHECK(sets.train->fingerprint() != sets.validation->fingerprint());

  CHECK(samples(*open_datasets(config, 1, Split::kValidation).validation) == validation);
  CHECK(open_datasets(config, 1, Split::kValidation).train == nullptr);
  const Datasets only = open_datasets(config, 1, Split::kTrain);
  CHECK(samples(*only.train) == train);
  CHECK(only.validation == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "split_off: no part is empty for any fraction") {
  config.validation_split = 0.001;
  CHECK(open_datasets(config, 1).validation->size() == 1);
  config.validation_split = 0.999;
  CHECK(open_datasets(config, 1).train->size() == 1);
  config.validation_split = 1;
  CHECK_THROWS_AS(open_datasets(config, 1), ConfigError);
}

TEST_CASE_FIXTURE(Fixture, "split_off: order last takes the last samples for any seed") {
  config.validation_split = 0.2;
  config.validation_split_order = config::ValidationSplitOrder::kLast;
  const Datasets sets = open_datasets(config, 1);
  CHECK(samples(*sets.validation) == std::vector<int>{24, 25, 26, 27, 28, 29});
  CHECK(samples(*sets.train).size() == 24);
  const Datasets other = open_datasets(config, 2);
  CHECK(samples(*other.validation) == samples(*sets.validation));
  CHECK(other.train->fingerprint() == sets.train->fingerprint());
  CHECK(same_division(sets.train->fingerprint(), sets.validation->fingerprint()));
  config.validation_split_order = config::ValidationSplitOrder::kStratified;
  const Datasets drawn = open_datasets(config, 1);
  CHECK_FALSE(same_division(sets.train->fingerprint(), drawn.validation->fingerprint()));
  // After data.limit.
  config.validation_split_order = config::ValidationSplitOrder::kLast;
  config.limit = 10;
  CHECK(samples(*open_datasets(config, 1).validation) == std::vector<int>{8, 9});
}

TEST_CASE_FIXTURE(Fixture, "split_off: one part stays valid when the other is destroyed") {
  config.validation_split = 0.5;
  Datasets sets = open_datasets(config, 1);
  sets.train.reset();
  CHECK(samples(*sets.validation).size() == 15);
}

TEST_CASE_FIXTURE(Fixture, "open_datasets: limit takes the first samples before validation_split") {
  config.limit = 10;
  CHECK(samples(*open_datasets(config, 1).train) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  config.validation_split = 0.3;
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.train->size() == 7);
  for (const int sample : samples(*sets.validation)) CHECK(sample < 10);
  config.validation_split = 0;
  config.limit = 1000;
  CHECK(open_datasets(config, 1).train->size() == 30);
}

TEST_CASE_FIXTURE(
    Fixture, "open_datasets: a given validation split takes precedence over validation_split") {
  write_split(folder.path(), "other", 9, 3);
  config.validation.images = folder.path() / "other-images-idx3-ubyte";
  config.validation.labels = folder.path() / "other-labels-idx1-ubyte";
  config.validation_split = 0.5;
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.train->size() == 30);
  CHECK(sets.validation->size() == 9);
}

TEST_CASE("divide_samples: every class has its share in both parts") {
  const auto counts = [](const std::vector<std::int32_t>& labels, double fraction) {
    const Division division = divide_samples(labels, fraction, 7);
    CHECK(division.train.size() + division.validation.size() == labels.size());
    CHECK(std::is_sorted(division.train.begin(), division.train.end()));
    CHECK(std::is_sorted(division.validation.begin(), division.validation.end()));
    std::map<std::int32_t, std::pair<int, int>> found;  // training, validation
    for (const auto i : division.train) ++found[labels[static_cast<std::size_t>(i)]].first;
    for (const auto i : division.validation) ++found[labels[static_cast<std::size_t>(i)]].second;
    return found;
  };
  using Counts = std::map<std::int32_t, std::pair<int, int>>;
  std::vector<std::int32_t> balanced, skewed(100, 0), rare(21, 0), alone{0, 1, 2, 3};
  for (int i = 0; i < 1000; ++i) balanced.push_back(i % 2);
  for (int i = 0; i < 30; ++i) skewed.push_back(1);
  for (int i = 0; i < 7; ++i) skewed.push_back(2);
  rare.push_back(1);
  CHECK(counts(balanced, 0.2) == Counts{{0, {400, 100}}, {1, {400, 100}}});
  CHECK(counts(skewed, 0.1) == Counts{{0, {90, 10}}, {1, {27, 3}}, {2, {6, 1}}});
  // The only sample of a class stays in training while there are others.
  CHECK(counts(rare, 0.9)[1] == std::pair{1, 0});
  CHECK(counts(rare, 0.9)[0] == std::pair{1, 20});
  int aside = 0;
  for (const auto& [label, count] : counts(alone, 0.5)) aside += count.second;
  CHECK(aside == 2);
  // Samples whose classes are not known are divided all the same.
  CHECK(counts(std::vector<std::int32_t>(10, -1), 0.3)[-1] == std::pair{7, 3});
  CHECK_THROWS_AS(divide_samples(std::vector<std::int32_t>{1}, 0.5, 1), DataError);
}

}  // namespace trainer::data
