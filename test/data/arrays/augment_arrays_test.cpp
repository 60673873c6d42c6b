#include "data/arrays/augment_arrays.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"
#include "config/config.h"
#include "data/images/augment/augment.h"
#include "data/open.h"

namespace trainer::data::augment_arrays_test::augment_arrays_test {
namespace {

config::Config build_config(const std::string& augment, const std::string& more = "") {
  const std::string text =
      "model: {layers: [flatten, dense: 10]}\ntrain: {epochs: 1}\n"
      "data: {format: synthetic, synthetic: {shape: [12, 10, 3], train_samples: 40}, train: "
      "{augment: " +
      augment + "}" + more + "}\n";
  return config::parse_config(text, "arrays", {}, {}).config;
}

struct Sample {
  std::vector<std::uint8_t> image;
  std::int32_t label = 0;
  bool operator==(const Sample&) const = default;
};

Sample sample(const Dataset& dataset, std::int64_t index, std::int64_t epoch) {
  Sample sample;
  sample.image.resize(dataset.spec().image_bytes());
  dataset.get(index, epoch, sample.image.data(), &sample.label);
  return sample;
}

}  // namespace

TEST_CASE("augment_arrays: random changes are a function of seed, epoch and sample") {
  const auto plain = open_datasets(build_config("[]").data, 7);
  const std::string list = "[random_flip_horizontal: 1, brightness: 0.3]";
  const auto random = open_datasets(build_config(list).data, 7);
  const auto again = open_datasets(build_config(list).data, 7);
  CHECK_FALSE(plain.train->spec().is_random);
  CHECK(random.train->spec().is_random);
  CHECK_FALSE(random.test->spec().is_random);
  CHECK(random.train->fingerprint() == plain.train->fingerprint());
  std::set<std::string> images;
  for (const std::int64_t epoch : {0, 1, 2}) {
    const Sample changed = sample(*random.train, 3, epoch);
    images.insert(std::string(changed.image.begin(), changed.image.end()));
    CHECK(changed == sample(*again.train, 3, epoch));
    // The change is that of image files.
    Pixels expected(12, 10, 3);
    const Sample original = sample(*plain.train, 3, epoch);
    std::copy(original.image.begin(), original.image.end(), expected.data());
    Random draws(7, Stream::kAugment, static_cast<std::uint64_t>(epoch), 3);
    augment(build_config(list).data.train.augment, Denormalizer({}), draws, expected);
    CHECK(std::equal(changed.image.begin(), changed.image.end(), expected.data()));
    CHECK(changed.label == original.label);
  }
  CHECK(images.size() == 3);
  CHECK(sample(*random.train, 3, kNoEpoch) == sample(*plain.train, 3, kNoEpoch));
}

TEST_CASE("augment_arrays: random_resized_crop takes a part of the image in its size") {
  const auto plain = open_datasets(build_config("[]").data, 7);
  const auto crops = open_datasets(build_config("[random_resized_crop]").data, 7);
  const auto whole = open_datasets(
      build_config("[random_resized_crop: {scale: [1, 1], ratio: [0.8333333, 0.8333334]}]").data,
      7);
  CHECK(sample(*crops.train, 1, 0).image != sample(*plain.train, 1, 0).image);
  CHECK(sample(*crops.train, 1, 0).image != sample(*crops.train, 1, 1).image);
  CHECK(sample(*whole.train, 1, 0) == sample(*plain.train, 1, 0));
}

TEST_CASE("augment_arrays: validation samples that are split off stay unchanged") {
  const auto plain = open_datasets(build_config("[]", ", validation_split: 0.25").data, 7);
  const auto random =
      open_datasets(build_config("[random_rotation: 30]", ", validation_split: 0.25").data, 7);
  CHECK(random.train->spec().is_random);
  CHECK_FALSE(random.validation->spec().is_random);
  CHECK(sample(*random.validation, 2, 1) == sample(*plain.validation, 2, 1));
  CHECK(sample(*random.train, 2, 1).image != sample(*plain.train, 2, 1).image);
}

TEST_CASE("augment_arrays: arrays that are not images are an error") {
  class Floats final : public Dataset {
   public:
    Floats() {
      spec_.image_shape = {2, 2, 1};
      spec_.image_type = DType::kFloat32;
    }
    std::int64_t size() const override { return 1; }
    const DatasetSpec& spec() const override { return spec_; }
    void get(std::int64_t, std::int64_t, void*, void*) const override {}
    std::string fingerprint() const override { return ""; }

   private:
    DatasetSpec spec_;
  };
  CHECK_THROWS_WITH_AS(
      augment_arrays(std::make_unique<Floats>(), build_config("[brightness]").data, 1),
      doctest::Contains("needs images of uint8 with 1 or 3 channels, but these are"), ConfigError);
  CHECK_NOTHROW(augment_arrays(std::make_unique<Floats>(), build_config("[mixup]").data, 1));
}

}  // namespace trainer::data::augment_arrays_test::augment_arrays_test
