#include "engine/frozen_prefix.h"

#include <doctest/doctest.h>

#include <cstring>

#include "data/samples/features.h"
#include "engine/engine.h"
#include "engine/evaluate.h"
#include "support/backend.h"
#include "support/model.h"
#include "train/features/feed.h"
#include "train/open.h"

namespace trainer::engine {
namespace {

std::vector<std::unique_ptr<backend::Backend>> open_backends_for(const config::Config& config) {
  return test::open_test_backends(device_options(config.parallel, {}));
}

config::Config build_config(const std::string& backbone, std::int64_t batch,
                            config::Precision precision, int threads) {
  config::Config config =
      test::build_config("{backbone: {" + backbone + "}, head: [flatten, dense: 3]}");
  config.train.batch_size = batch;
  config.train.precision = precision;
  config.parallel.threads = threads;
  return config;
}

struct Frozen {
  explicit Frozen(const std::string& backbone, std::int64_t batch = 1,
                  config::Precision precision = config::Precision::kFloat32, int threads = 1)
      : config(build_config(backbone, batch, precision, threads)), engine() {
    auto backends = open_backends_for(config);
    const bool wide = precision == config::Precision::kFloat32;
    if (!wide && !backends.front()->supports(DType::kBFloat16)) return;
    engine.emplace(model::build_model(config.model, config.data, test::sample({48, 48, 3}, 3), 1),
                   config, std::move(backends), Use::kTrain);
    engine->initialise(1);
  }
  std::size_t row_bytes() const {
    const FrozenPrefix& prefix = *engine->replica().prefix();
    return static_cast<std::size_t>(prefix.shape().elements()) * size_of(prefix.type());
  }

  config::Config config;
  std::optional<Engine> engine;
};

constexpr std::size_t kImage = 48 * 48 * 3;

std::vector<std::uint8_t> noise(std::size_t images) {
  std::vector<std::uint8_t> pixels(images * kImage);
  std::uint32_t state = 1;
  for (std::uint8_t& pixel : pixels) {
    state = state * 1664525u + 1013904223u;
    pixel = static_cast<std::uint8_t>(state >> 24);
  }
  return pixels;
}

// Noise that counts how often it is read.
class Counted final : public data::Dataset {
 public:
  explicit Counted(std::int64_t size)
      : pixels_(noise(static_cast<std::size_t>(size))), reads(static_cast<std::size_t>(size)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(reads.size()); }
  const data::DatasetSpec& spec() const override { return spec_; }
  void get(std::int64_t index, std::int64_t, void* image, void* label) const override {
    const auto i = static_cast<std::size_t>(index);
    ++reads[i];
    std::memcpy(image, pixels_.data() + i * kImage, kImage);
    const auto number = static_cast<std::int32_t>(index % 3);
    std::memcpy(label, &number, sizeof number);
  }
  std::string fingerprint() const override { return "noise"; }

 private:
  data::DatasetSpec spec_{{48, 48, 3}, DType::kUInt8, data::LabelKind::kIndex, 1, false, true};
  std::vector<std::uint8_t> pixels_;

 public:
  mutable std::vector<int> reads;
};

}  // namespace

// What makes kept features equal to those of any later epoch.
TEST_CASE("FrozenPrefix: the features of a sample do not depend on the size of its batch") {
  for (const char* backbone :
       {"name: vgg16, freeze: '[:-4]'", "name: mobilenet_v2, alpha: 0.5, freeze: all",
        "name: mobilenet_v2, freeze: '[:-20]'", "name: resnet50, freeze: '[:60]'",
        "name: vit_tiny_patch16, freeze: all"}) {
    for (const auto precision : {config::Precision::kFloat32, config::Precision::kBFloat16}) {
      for (const int threads : {1, 2}) {
        CAPTURE(backbone);
        CAPTURE(static_cast<int>(precision));
        CAPTURE(threads);
        Frozen model(backbone, 21, precision, threads);
        if (!model.engine) continue;
        REQUIRE(model.engine->replica().prefix() != nullptr);
        const std::size_t row = model.row_bytes();
        const std::vector<std::uint8_t> images = noise(21);
        std::vector<std::uint8_t> all(21 * row);
        const std::vector<std::int32_t> labels(21);
        model.engine->evaluate({21, images.data(), false, labels.data()});
        std::memcpy(all.data(), model.engine->read_features(21), all.size());
        for (const std::size_t count : {1u, 2u, 3u, 8u, 16u}) {
          const auto samples = static_cast<std::int64_t>(count);
          model.engine->evaluate({samples, images.data() + 2 * kImage, false, labels.data()});
          const void* some = model.engine->read_features(samples);
          CAPTURE(count);
          CHECK(std::memcmp(some, all.data() + 2 * row, count * row) == 0);
        }
      }
    }
  }
}

TEST_CASE("FrozenPrefix ends at the last frozen layer whose output is all that the rest needs") {
  const auto layer = [](const std::string& backbone) {
    const Frozen model(backbone);
    const FrozenPrefix* prefix = model.engine->replica().prefix();
    return prefix != nullptr ? prefix->layer() : model.engine->replica().no_prefix_reason();
  };
  CHECK(layer("name: vgg16, freeze: '[:-4]'") == "block4_pool");
  CHECK(layer("name: vgg16, freeze: all") == "flatten");
  CHECK(layer("name: vgg16") == "no layers at the start of the model are frozen");
  // The projection of block 2 is trained; its input branches off before the expansion.
  CHECK(layer("name: mobilenet_v2, freeze: [Conv1, bn_Conv1, 'expanded_*', 'block_1_*', "
              "'block_2_expand*']") == "block_1_project_BN");
}

TEST_CASE("FrozenPrefix::key changes with weights and precision, not with the head") {
  Frozen one("name: mobilenet_v2, alpha: 0.35, freeze: all");
  const std::string key = one.engine->replica().prefix()->key();
  CHECK(key ==
        Frozen("name: mobilenet_v2, alpha: 0.35, freeze: all").engine->replica().prefix()->key());
  checkpoint::Tensor changed;
  for (checkpoint::Tensor& tensor : one.engine->replica().tensors()) {
    if (tensor.name == "bn_Conv1/moving_mean") changed = tensor;
  }
  changed.values[0] += 1e-3f;
  one.engine->write({changed});
  CHECK(one.engine->replica().prefix()->key() != key);
  // A layer of the head is none of it.
  one.engine->initialise(1);
  CHECK(one.engine->replica().prefix()->key() == key);
  for (checkpoint::Tensor& tensor : one.engine->replica().tensors()) {
    if (tensor.name == "dense/bias") changed = tensor;
  }
  changed.values[0] += 1;
  one.engine->write({changed});
  CHECK(one.engine->replica().prefix()->key() == key);
}

TEST_CASE("evaluate: flip with cached features is an error") {
  Frozen model("name: mobilenet_v2, alpha: 0.35, freeze: all", 4);
  const Counted images(10);
  data::FeatureDataset features(images, model.engine->replica().prefix()->shape(),
                                model.engine->replica().prefix()->type(), {});
  EvaluateOptions options;
  options.flip = true;
  CHECK_THROWS_WITH_AS(evaluate(*model.engine, images, options, &features),
                       "mirror images need images", std::logic_error);
}

TEST_CASE("Feed: cached features are those of the model with each image read once") {
  Frozen model("name: mobilenet_v2, alpha: 0.35, freeze: all", 4);
  const Counted images(10);
  data::FeatureDataset features(images, model.engine->replica().prefix()->shape(),
                                model.engine->replica().prefix()->type(), {});
  data::LoaderOptions options;
  options.batch_size = 4;
  options.shuffle = true;
  options.end_step = 9;  // three epochs
  train::Feed feed(images, &features, *model.engine, options);
  train::Feed again(images, nullptr, *model.engine, options);
  const std::size_t row = model.row_bytes();
  std::vector<std::uint8_t> kept(4 * row);
  for (int batch = 0; batch < 9; ++batch) {
    const data::Batch& one = feed.next();
    const auto bytes = static_cast<std::size_t>(one.range.count) * row;
    const auto take_features = [&](train::Feed& from, const data::Batch& read) {
      const HostBatch given = from.host_batch(read);
      if (given.is_features) return given.input;
      model.engine->evaluate(given);
      const void* made = model.engine->read_features(given.samples);
      from.keep_features(read);
      return made;
    };
    std::memcpy(kept.data(), take_features(feed, one), bytes);
    const std::vector<int> before = images.reads;
    const data::Batch& other = again.next();
    CHECK(one.indices == other.indices);
    CHECK(std::memcmp(one.labels, other.labels, one.indices.size() * 4) == 0);
    CHECK(std::memcmp(kept.data(), take_features(again, other), bytes) == 0);
    images.reads = before;  // of the feed alone
    feed.release();
    again.release();
  }
  CHECK(features.complete());
  for (const int reads : images.reads) CHECK(reads == 1);
}

}  // namespace trainer::engine
