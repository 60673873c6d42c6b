#include <doctest/doctest.h>

#include <set>

#include "base/error.h"
#include "data/arrays/idx_files.h"
#include "data/data.h"

namespace trainer::data {
namespace {

// With fewer than 36 samples the pixel tells the sample: 7 * index.
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

TEST_CASE_FIXTURE(Fixture, "a split is disjoint, complete, and a function of the seed") {
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

  CHECK(samples(*open_datasets(config, 1, "validation").validation) == validation);
  CHECK(open_datasets(config, 1, "validation").train == nullptr);
  const Datasets only = open_datasets(config, 1, "train");
  CHECK(samples(*only.train) == train);
  CHECK(only.validation == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "neither part of a split is ever empty") {
  config.validation_split = 0.001;
  CHECK(open_datasets(config, 1).validation->size() == 1);
  config.validation_split = 0.999;
  CHECK(open_datasets(config, 1).train->size() == 1);
  config.validation_split = 1;
  CHECK_THROWS_AS(open_datasets(config, 1), ConfigError);
}

TEST_CASE_FIXTURE(Fixture, "parts live on without each other") {
  config.validation_split = 0.5;
  Datasets sets = open_datasets(config, 1);
  sets.train.reset();
  CHECK(samples(*sets.validation).size() == 15);
}

TEST_CASE_FIXTURE(Fixture, "limit takes the first samples, before anything is set aside") {
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

TEST_CASE_FIXTURE(Fixture, "a validation split of its own wins over validation_split") {
  write_split(folder.path(), "other", 9, 3);
  config.validation.images = folder.path() / "other-images-idx3-ubyte";
  config.validation.labels = folder.path() / "other-labels-idx1-ubyte";
  config.validation_split = 0.5;
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.train->size() == 30);
  CHECK(sets.validation->size() == 9);
}

}  // namespace trainer::data
