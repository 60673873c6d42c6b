#include "train/features/feed.h"

#include <doctest/doctest.h>

#include "support.h"

namespace trainer::train::feed_test {
namespace {

using namespace support;

// The samples of the batches from `first` to `end`.
std::vector<std::int64_t> read_indices(Feed& feed, std::int64_t batches, bool look_ahead) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < batches; ++i) {
    if (look_ahead) feed.look_ahead();
    const data::Batch& batch = feed.next();
    all.insert(all.end(), batch.indices.begin(), batch.indices.end());
    feed.release();
  }
  return all;
}

data::LoaderOptions build_options(std::int64_t first, std::int64_t end) {
  data::LoaderOptions options;
  options.batch_size = 4;
  options.shuffle = true;
  options.seed = 3;
  options.first_step = first;
  options.end_step = end;
  return options;
}

struct Subject {
  explicit Subject(const std::string& model = kDense)
      : trial(run_config("", model)),
        engine(trial.model(), trial.config, open_test_backends(1), engine::Use::kTrain) {
    engine.initialise(1);
  }
  Trial trial;
  engine::Engine engine;
};

}  // namespace

TEST_CASE("feed: batches are in order from any first step, with and without look_ahead()") {
  Subject subject;
  Feed whole(*subject.trial.train, nullptr, subject.engine, build_options(0, 12));
  const std::vector<std::int64_t> all = read_indices(whole, 12, false);
  CHECK(all.size() == 48);
  Feed later(*subject.trial.train, nullptr, subject.engine, build_options(5, 12));
  CHECK(read_indices(later, 7, true) == std::vector<std::int64_t>(all.begin() + 20, all.end()));
}

TEST_CASE(
    "feed: a sample that cannot be read is an error when its batch is due or looked at ahead") {
  Subject subject;
  data::LoaderOptions options = build_options(0, 6);
  options.shuffle = false;
  subject.trial.train->unreadable_samples = {9};
  for (const bool look_ahead : {false, true}) {
    Feed feed(*subject.trial.train, nullptr, subject.engine, options);
    CHECK(read_indices(feed, 2, true).size() == 8);
    CHECK_THROWS_AS((look_ahead ? feed.look_ahead() : static_cast<void>(feed.next())), DataError);
  }
}

TEST_CASE("feed: features are stored in the first epoch and returned from the second epoch on") {
  Trial trial(run_config());
  trial.config = trainer::test::build_config(
      "{backbone: {name: mobilenet_v2, alpha: 0.35, freeze: all}, head: [flatten, dense: 2]}",
      "data: {format: synthetic, synthetic: {shape: [32, 32, 3], classes: 2, train_samples: 6}}\n");
  trial.config.train.batch_size = 4;
  const data::Datasets data = open_training_data(trial.config);
  engine::Engine engine(
      model::build_model(trial.config.model, trial.config.data, sample_spec(data), 1), trial.config,
      open_test_backends(1), engine::Use::kTrain);
  engine.initialise(1);
  REQUIRE(engine.replica().prefix() != nullptr);
  data::FeatureDataset features(*data.train, engine.replica().prefix()->shape(),
                                engine.replica().prefix()->type(), {});
  Feed feed(*data.train, &features, engine, build_options(0, 4));  // two batches per epoch
  const auto bytes = static_cast<std::size_t>(engine.replica().prefix()->shape().elements()) *
                     size_of(engine.replica().prefix()->type());
  backend::Scalars scalars;
  scalars.loss_scale = 0.25;
  std::map<std::int64_t, std::string> first, second;
  for (std::int64_t i = 0; i < 4; ++i) {
    const data::Batch& batch = feed.next();
    CHECK(features.complete() == (i >= 2));
    const engine::HostBatch input = feed.host_batch(batch);
    CHECK(input.is_features == (i >= 2));
    engine.launch(input, scalars);
    engine.result();
    feed.keep_features(batch);
    const auto* rows =
        static_cast<const char*>(i < 2 ? engine.read_features(input.samples) : batch.images);
    for (std::size_t k = 0; k < batch.indices.size(); ++k) {
      (i < 2 ? first : second)[batch.indices[k]] = std::string(rows + k * bytes, bytes);
    }
    feed.release();
  }
  CHECK(first.size() == 6);
  CHECK(first == second);
}

}  // namespace trainer::train::feed_test
