#include "engine/engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/numbers/partition.h"
#include "cluster/local_group.h"
#include "support/backend.h"
#include "support/fake_gpus.h"
#include "support/model.h"
#include "support/skip.h"
#include "train/state.h"

namespace trainer::engine::replicas_test {
namespace {

std::vector<std::unique_ptr<backend::Backend>> open_backends_for(const config::Config& config,
                                                                 std::int64_t workers = 1) {
  return test::open_test_backends(device_options(config.parallel, {}, workers));
}

const char* const kModel =
    "{layers: [conv: {filters: 4, activation: relu}, max_pool, dropout: 0.2, flatten, dense: 3]}";

config::Config build_config(std::int64_t replicas, std::int64_t batch, bool ordered,
                            const std::string& model = kModel) {
  config::Config config =
      test::build_config(model, "optimizer: {sgd: {learning_rate: 0.1, momentum: 0.9}}\n");
  config.parallel.replicas = replicas;
  config.parallel.threads = 4;
  config.train.batch_size = batch;
  if (ordered) config.parallel.reduction = config::Parallel::Reduction::kOrdered;
  return config;
}

graph::Graph make_model(const config::Config& config) {
  model::SampleSpec spec = test::sample({8, 8, 1}, 3);
  spec.label_is_index = config.model.loss != LossKind::kMeanSquaredError;
  return model::build_model(config.model, config.data, spec, 1);
}

std::unique_ptr<Engine> make(const config::Config& config,
                             cluster::Communicator* workers = nullptr) {
  auto engine = std::make_unique<Engine>(make_model(config), config, open_backends_for(config),
                                         Use::kTrain, workers);
  engine->initialise(3);
  return engine;
}

struct Samples {
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;

  Samples(std::int64_t count, int seed) {
    for (std::int64_t i = 0; i < count * 64; ++i) {
      images.push_back(static_cast<std::uint8_t>((i * 37 + i / 64 * seed + i % 64 * i) % 251));
    }
    for (std::int64_t i = 0; i < count; ++i) {
      labels.push_back(static_cast<std::int32_t>((i + seed) % 3));
    }
  }
  // Samples [first, first + count).
  HostBatch of(std::int64_t count, std::int64_t first = 0) const {
    return {count, images.data() + first * 64, false, labels.data() + first};
  }
};

backend::Scalars make_scalars(std::int64_t samples, std::uint64_t update = 1) {
  backend::Scalars scalars;
  scalars.learning_rate = 0.01f;
  scalars.update = update;
  scalars.loss_scale = 1.0 / static_cast<double>(samples);
  return scalars;
}

using Floats = std::vector<float>;

Floats copy(std::span<const float> values, std::int64_t count) {
  return {values.begin(), values.begin() + count};
}

}  // namespace

TEST_CASE("Engine: ordered sums equal one replica bit by bit in training and evaluation") {
  const auto one = make(build_config(1, 16, true));
  const auto two = make(build_config(2, 8, true)), four = make(build_config(4, 4, true));
  CHECK(four->count() == 4);
  CHECK(four->batch() == 16);
  std::uint64_t update = 0;
  for (const std::int64_t samples : {16, 16, 11, 3, 1, 16}) {
    const Samples batch(samples, static_cast<int>(update));
    const backend::Scalars scalars = make_scalars(samples, ++update);
    StepResult expected;
    for (const auto& engine : {one.get(), two.get(), four.get()}) {
      const StepResult result = engine->step(batch.of(samples), scalars);
      CHECK(result.finite);
      const std::span<const float> losses = engine->losses();
      CHECK(result.loss == doctest::Approx(std::accumulate(losses.begin(), losses.end(), 0.0)));
      if (engine == one.get()) expected = result;
      CHECK(result.correct == expected.correct);
      CHECK(copy(losses, samples) == copy(one->losses(), samples));
      engine->check_equal();
      CHECK(engine->replica().parameters_sha256() == one->replica().parameters_sha256());
    }
    for (const auto& engine : {one.get(), two.get(), four.get()}) {
      engine->evaluate(batch.of(samples));
      CHECK(copy(engine->evaluated_losses(), samples) == copy(one->evaluated_losses(), samples));
      CHECK(copy(engine->logits(), 3 * samples) == copy(one->logits(), 3 * samples));
    }
  }
}

TEST_CASE("Engine counts the layers of a step on the CPU as progress") {
  if (test::test_backend_name() != "cpu") TRAINER_SKIP("steps of other devices are waited for");
  config::Config config = build_config(1, 16, false);
  config.parallel.device = DeviceKind::kCpu;
  const backend::Platform platform;
  Engine engine(make_model(config), config,
                backend::open_backends(device_options(config.parallel, platform)), Use::kTrain);
  engine.initialise(3);
  const Samples batch(16, 1);
  const std::uint64_t before = platform.progress.count();
  engine.step(batch.of(16), make_scalars(16));
  const std::uint64_t of_step = platform.progress.count() - before;
  engine.evaluate(batch.of(16));
  const std::uint64_t of_evaluation = platform.progress.count() - before - of_step;
  // Forward has a convolution, a dense layer and the loss; a call has a begin and an end.
  CHECK(of_evaluation >= 5);
  CHECK(of_step >= of_evaluation + 3);
  CHECK_FALSE(platform.progress.is_open(Activity::kCompute));
}

TEST_CASE("Engine: parallel.evaluate false lets one replica evaluate as all do bit by bit") {
  for (const bool ordered : {false, true}) {
    config::Config config = build_config(2, 8, ordered);
    const auto spread = make(config);
    config.parallel.evaluate = false;
    const auto alone = make(config);
    CHECK(spread->evaluation_batch() == 16);
    CHECK(alone->evaluation_batch() == 8);
    for (const std::int64_t samples : {8, 5, 1}) {
      const Samples batch(samples, 1);
      for (const auto& engine : {spread.get(), alone.get()}) {
        engine->step(batch.of(samples), make_scalars(samples));
        engine->evaluate(batch.of(samples));
      }
      CHECK(copy(alone->evaluated_losses(), samples) == copy(spread->evaluated_losses(), samples));
      CHECK(copy(alone->logits(), 3 * samples) == copy(spread->logits(), 3 * samples));
    }
    CHECK(alone->replica().parameters_sha256() == spread->replica().parameters_sha256());
  }
}

TEST_CASE("Engine: parallel.evaluate false with frozen layers lets one of several ranks evaluate") {
  const char* const frozen =
      "{backbone: {name: mobilenet_v2, alpha: 0.35, freeze: all}, head: [flatten, dense: 3]}";
  for (const bool ordered : {false, true}) {
    config::Config config = build_config(1, 2, ordered, frozen);
    config.parallel.threads = 1;
    config.parallel.evaluate = false;
    const graph::Graph model =
        model::build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
    std::vector<std::uint8_t> images(2 * 32 * 32 * 3);
    for (std::size_t i = 0; i < images.size(); ++i)
      images[i] = static_cast<std::uint8_t>(i * 37 % 251);
    const std::vector<std::int32_t> labels{1, 2};
    Engine one(model, config, open_backends_for(config), Use::kTrain);
    one.initialise(3);
    one.evaluate({2, images.data(), false, labels.data()});
    auto workers = cluster::make_local_group(2);
    ThreadTeam team(2);
    team.run([&](int worker) {
      Engine mine(model, config, open_backends_for(config, 2), Use::kTrain,
                  workers[static_cast<std::size_t>(worker)].get());
      mine.initialise(3);
      REQUIRE(mine.replica().prefix() != nullptr);
      if (worker > 0) return;
      mine.evaluate({2, images.data(), false, labels.data()});
      CHECK(copy(mine.evaluated_losses(), 2) == copy(one.evaluated_losses(), 2));
    });
  }
}

TEST_CASE("Engine: two workers train like one process") {
  const auto alone = make(build_config(4, 4, true));
  auto workers = cluster::make_local_group(2);
  std::vector<std::string> hashes(2);
  ThreadTeam team(2);
  team.run([&](int worker) {
    const auto w = static_cast<std::size_t>(worker);
    const auto mine = make(build_config(2, 4, true), workers[w].get());
    for (const std::int64_t samples : {16, 5, 2, 1}) {
      const Samples batch(samples, 1);
      const Partition part = partition(samples, 2, worker);
      backend::Scalars scalars = make_scalars(samples);
      scalars.all_samples = samples;
      scalars.first_sample = static_cast<std::uint64_t>(part.first);
      CHECK(mine->step(batch.of(part.count, part.first), scalars).finite);
      if (worker == 0) alone->step(batch.of(samples), make_scalars(samples));
    }
    mine->check_equal();
    hashes[w] = mine->replica().parameters_sha256();
  });
  CHECK(hashes[0] == alone->replica().parameters_sha256());
  CHECK(hashes[1] == hashes[0]);
}

TEST_CASE("Engine::times: phases of each replica take at most the time of the call in total") {
  const auto add_seconds = [](const backend::PhaseTimes& times) {
    return times.copy + times.forward + times.backward + times.all_reduce + times.update;
  };
  for (const std::int64_t replicas : {1, 2}) {
    CAPTURE(replicas);
    const auto engine = make(build_config(replicas, 32 / replicas, false));
    const Samples samples(32, 5);
    for (std::uint64_t update = 1; update <= 3; ++update) {
      const auto start = std::chrono::steady_clock::now();
      engine->step(samples.of(32), make_scalars(32, update));
      const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - start;
      REQUIRE(engine->times().size() == static_cast<std::size_t>(replicas));
      for (const backend::PhaseTimes& times : engine->times()) {
        if (!times.measured) {  // a device that cannot measure
          CHECK(add_seconds(times) == 0);
          continue;
        }
        CHECK(times.forward > 0);
        CHECK(times.backward > 0);
        CHECK(times.update > 0);
        CHECK((times.all_reduce > 0) == (replicas > 1));
        if (!test::uses_fake_gpus()) CHECK(add_seconds(times) <= whole.count());
        CHECK(times.all_reduce_hidden >= 0);
      }
    }
  }
}

TEST_CASE("Engine: inputs are copied to the device during the call before") {
  constexpr std::int64_t kCount = 16;
  const auto config = build_config(1, kCount, false);
  Engine engine(model::build_model(config.model, config.data, test::sample({64, 64, 3}, 3), 1),
                config, open_backends_for(config), Use::kTrain);
  engine.initialise(3);
  if (engine.replica().launches_in_flight() < 2)
    TRAINER_SKIP("a launch blocks until the call is done");
  const std::int64_t bytes = kCount * engine.replica().image_bytes();
  const HostAllocator allocate = engine.host_allocator();
  constexpr std::uint64_t kCalls = 8;
  std::vector<HostBuffer> images;
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(kCount), 1);
  for (std::uint64_t call = 0; call < kCalls; ++call) {
    images.push_back(allocate(static_cast<std::size_t>(bytes)));
    std::fill_n(images.back().data(), bytes, static_cast<std::byte>(call));
  }
  const auto launch = [&](std::uint64_t call) {
    engine.launch({kCount, images[call].data(), false, labels.data()},
                  make_scalars(kCount, call + 1));
  };
  launch(0);
  std::vector<double> copies;  // that the device waited for
  for (std::uint64_t call = 0; call < kCalls; ++call) {
    if (call + 1 < kCalls) launch(call + 1);
    CHECK(engine.result().finite);
    copies.push_back(engine.times()[0].copy);
  }
  if (!test::uses_fake_gpus()) return;
  // The model copies 25 GB a second; its calls take longer than the copies of these batches.
  const double seconds = static_cast<double>(bytes) / 25e9;
  CHECK(copies.front() > seconds);
  for (std::uint64_t call = 2; call < kCalls; ++call)
    CHECK(copies[call] < copies.front() - seconds / 2);
}

TEST_CASE("Engine::times: the time of frozen layers is part of the forward phase") {
  constexpr std::int64_t kCount = 4;
  const auto config = build_config(
      1, kCount, false,
      "{backbone: {name: mobilenet_v2, alpha: 0.35, freeze: all}, head: [flatten, dense: 3]}");
  Engine engine(model::build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1),
                config, open_backends_for(config), Use::kTrain);
  engine.initialise(3);
  REQUIRE(engine.replica().prefix() != nullptr);
  const std::vector<std::uint8_t> images(static_cast<std::size_t>(kCount * 32 * 32 * 3), 7);
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(kCount), 1);
  // The smallest of as many as it takes until no other process on the machine has lengthened them.
  double with_prefix = 1e9, without = 1e9;
  for (std::uint64_t update = 1; update <= 100 && with_prefix <= 2 * without; ++update) {
    engine.step({kCount, images.data(), false, labels.data()}, make_scalars(kCount, update));
    with_prefix = std::min(with_prefix, engine.times()[0].forward);
    const auto* from = static_cast<const char*>(engine.read_features(kCount));
    const std::vector<char> features(from, from + kCount * engine.replica().input_bytes());
    engine.step({kCount, features.data(), true, labels.data()}, make_scalars(kCount, update));
    without = std::min(without, engine.times()[0].forward);
  }
  // The reference backend's calls run one after the other on its thread, which times each alone.
  if (engine.times()[0].measured && !test::uses_reference_backend()) {
    CHECK(with_prefix > 2 * without);
  }
}

TEST_CASE("Engine::check_equal: the error of a variable that differs has its name and rank") {
  const auto engine = make(build_config(3, 4, false));
  CHECK_NOTHROW(engine->check_equal());
  for (checkpoint::Tensor tensor : engine->replica().tensors()) {
    if (tensor.name != "conv2d/bias") continue;
    tensor.values[1] = -0.0f;  // equal to what it was, but not in its bits
    engine->replica(2).write({tensor});
  }
  try {
    engine->check_equal();
    FAIL("the difference was not seen");
  } catch (const CheckError& error) {
    const std::string what = error.what();
    CHECK(what.find("conv2d/bias on rank 2") != std::string::npos);
    CHECK(what.find("kernel") == std::string::npos);
    CHECK(what.find("rank 1") == std::string::npos);
  }
}

TEST_CASE(
    "Engine: the loss of one replica is not finite, so no update follows and the layer is "
    "found") {
  const auto engine =
      make(build_config(2, 4, false, "{layers: [flatten, dense: 3], loss: mean_squared_error}"));
  const std::string before = engine->replica().parameters_sha256();
  const Samples batch(8, 1);
  std::vector<float> targets(24, 0.5f);
  targets[20] = std::numeric_limits<float>::infinity();
  const backend::Scalars scalars = make_scalars(8);
  const HostBatch given{8, batch.images.data(), false, targets.data()};
  CHECK_FALSE(engine->step(given, scalars).finite);
  CHECK(engine->replica().parameters_sha256() == before);
  engine->check_equal();
  for (checkpoint::Tensor tensor : engine->replica().tensors()) {
    if (tensor.name != "dense/kernel") continue;
    tensor.values[0] = std::numeric_limits<float>::infinity();
    engine->replica(1).write({tensor});
  }
  CHECK(engine->find_not_finite(given, scalars).find("dense/kernel") != std::string::npos);
}

TEST_CASE("Engine: an error in the thread of one replica is thrown to the caller") {
  const Samples batch(10, 1);  // outlives the replicas, which may still read it after an error
  const auto engine = make(build_config(2, 4, true));
  CHECK_THROWS_AS(engine->step(batch.of(10), make_scalars(10)), std::logic_error);
}

TEST_CASE("Engine: batch_norm with ordered sums is an error at the line of the layer") {
  const config::Config config =
      build_config(1, 8, true, "{layers: [conv: {filters: 4}, batch_norm, flatten, dense: 3]}");
  try {
    make(config);
    FAIL("not rejected");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 1);
    CHECK(error.diagnostics()[0].loc.line == 1);
    CHECK(error.diagnostics()[0].message.find("batch_normalization") != std::string::npos);
  }
  CHECK(uses_batch_statistics(make_model(config)));
  CHECK_FALSE(uses_batch_statistics(make_model(build_config(1, 8, true))));
}

TEST_CASE("from_metadata: another global batch is an error, another number of replicas is not") {
  data::Datasets data;
  const auto read = [&](const checkpoint::Metadata& metadata, const config::Config& config,
                        std::int64_t workers) {
    return train::from_metadata(metadata, config, data, train::plan_steps(config, 1000, workers),
                                "run");
  };
  const config::Config two = build_config(2, 64, false);
  const auto saved = train::to_metadata({}, two, data, train::plan_steps(two, 1000));
  CHECK_NOTHROW(read(saved, build_config(1, 128, false), 1));
  CHECK_NOTHROW(read(saved, build_config(4, 32, false), 1));
  CHECK_NOTHROW(read(saved, build_config(2, 32, false), 2));
  try {
    read(saved, build_config(1, 64, false), 1);
    FAIL("not rejected");
  } catch (const DataError& error) {
    CHECK(std::string(error.what()).find("global batch was 128, is 64") != std::string::npos);
  }
}

}  // namespace trainer::engine::replicas_test
