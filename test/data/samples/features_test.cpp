#include "data/samples/features.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "data/open.h"

namespace trainer::data {

TEST_CASE("feature cache: the error of a file that is overwritten while in use has its name") {
  const TemporaryFolder folder;
  config::Data config;
  config.format = config::DataFormat::kSynthetic;
  config.synthetic.train_samples = 3;
  config.synthetic.test_samples = 1;
  const Datasets sets = open_datasets(config, 1);
  const Path file = folder.path() / "features.bin";
  FeatureDataset features(*sets.train, Shape{4}, DType::kFloat32, file);
  const float rows[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::int32_t labels[3] = {7, 8, 9};
  Batch batch;
  batch.labels = labels;
  batch.indices = {0, 1, 2};
  features.store(batch, rows);
  CHECK(features.complete());
  float row[4];
  std::int32_t label = 0;
  features.get(1, 0, row, &label);
  CHECK(row[0] == 5);
  CHECK(label == 8);
  {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(-3, std::ios::end);
    stream << 'x';
  }
  features.get(1, 0, row, &label);
  CHECK_THROWS_WITH_AS(features.get(2, 0, row, &label),
                       doctest::Contains("features.bin: the features of sample 2 do not match"),
                       DataError);
  std::filesystem::resize_file(file, 0);
  CHECK_THROWS_AS(features.get(0, 0, row, &label), DataError);
  // The message advises this.
  std::filesystem::remove(file);
  FeatureDataset again(*sets.train, Shape{4}, DType::kFloat32, file);
  CHECK_FALSE(again.complete());
}

TEST_CASE("feature cache: the folds of one set of images share a file") {
  const TemporaryFolder folder;
  config::Data config;
  config.format = config::DataFormat::kSynthetic;
  config.synthetic.train_samples = 9;
  config.synthetic.test_samples = 1;
  config.folds = 3;
  const Path file = folder.path() / "features.bin";
  config.fold = 1;
  const Datasets first = open_datasets(config, 1);
  config.fold = 2;
  const Datasets second = open_datasets(config, 1);
  FeatureDataset train(*second.train, Shape{1}, DType::kFloat32, file);
  // The feature and the label of each sample are its number among all images.
  for (const Dataset* images : {first.train.get(), first.validation.get()}) {
    CHECK_FALSE(train.complete());
    FeatureDataset features(*images, Shape{1}, DType::kFloat32, file);
    const auto numbers = images->find_part().indices;
    REQUIRE(numbers.size() == static_cast<std::size_t>(images->size()));
    const std::vector<float> rows(numbers.begin(), numbers.end());
    const std::vector<std::int32_t> labels(numbers.begin(), numbers.end());
    Batch batch;
    batch.labels = labels.data();
    for (std::int64_t i = 0; i < images->size(); ++i) batch.indices.push_back(i);
    features.store(batch, rows.data());
    CHECK(features.complete());
  }
  CHECK(train.complete());
  CHECK(train.size() == 6);
  for (std::int64_t i = 0; i < train.size(); ++i) {
    float feature = -1;
    std::int32_t label = -1;
    train.get(i, 0, &feature, &label);
    const std::int64_t number = second.train->find_part().indices[static_cast<std::size_t>(i)];
    CHECK(feature == static_cast<float>(number));
    CHECK(label == number);
  }
}

}  // namespace trainer::data
