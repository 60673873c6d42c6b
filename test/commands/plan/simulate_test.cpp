#include "commands/plan/simulate.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "data/open.h"
#include "results/write_json.h"
#include "support/model.h"
#include "train/schedule/step_summary.h"

namespace trainer::commands {
namespace {

using config::Collective;

// Two buckets of 1 MB, ready after 4 and 9 of 10 ms.
StepProfile two_buckets() {
  StepProfile profile;
  profile.samples = 32;
  profile.seconds = 10e-3;
  profile.buckets = {{1'000'000, 4e-3}, {1'000'000, 9e-3}};
  return profile;
}

model::LayerRow layer(std::int64_t flops, std::int64_t trainable) {
  model::LayerRow row;
  row.flops = flops;
  row.parameters = row.trainable_parameters = trainable;
  return row;
}

}  // namespace

TEST_CASE("parse_bandwidth and parse_seconds read values with units, and fail without") {
  CHECK(parse_bandwidth("--link", "100Gbit") == doctest::Approx(12.5e9));
  CHECK(parse_bandwidth("--link", "100 Gbit/s") == doctest::Approx(12.5e9));
  CHECK(parse_bandwidth("--link", "12.5GB/s") == doctest::Approx(12.5e9));
  CHECK(parse_bandwidth("--link", "1.5MiB") == doctest::Approx(1.5 * 1048576));
  CHECK(parse_bandwidth("--link", "64Kibit/s") == doctest::Approx(8192));
  CHECK(parse_bandwidth("--link", "8bit") == doctest::Approx(1));
  CHECK(parse_seconds("--latency", "20us") == doctest::Approx(20e-6));
  CHECK(parse_seconds("--latency", "1.5 ms") == doctest::Approx(1.5e-3));
  CHECK(parse_seconds("--latency", "2s") == doctest::Approx(2));
  CHECK(parse_seconds("--latency", "0ns", true) == 0);
  for (const char* text :
       {"", "fast", "100", "100 G", "0Gbit", "-1Gbit", "1Xbit", "1bits", "nan B"}) {
    CHECK_THROWS_WITH_AS(
        parse_bandwidth("--link", text),
        doctest::Contains("--link: expected a bandwidth above 0 with its unit, such as 100Gbit"),
        ConfigError);
  }
  for (const char* text : {"", "20", "0us", "-1s", "5 m", "inf s"}) {
    CHECK_THROWS_WITH_AS(parse_seconds("--latency", text),
                         doctest::Contains("--latency: expected a time above 0 with its unit"),
                         ConfigError);
  }
}

TEST_CASE("all_reduce_seconds equals the closed form of each collective") {
  const Link link{1e9, 10e-6};
  const auto cost = [&](Collective collective, std::int64_t bytes, std::int64_t ranks) {
    return all_reduce_seconds(collective, bytes, ranks, link);
  };
  for (const Collective any : {Collective::kAuto, Collective::kRing}) {
    CHECK(cost(any, 4'000'000, 1) == 0);
    CHECK(cost(any, 4000, 8) == doctest::Approx(10e-6 + 7 * 4e-6));  // whole, to all
    CHECK(cost(any, 4'000'000, 4) ==
          doctest::Approx((any == Collective::kRing ? 2 : 3) * 10e-6 + 6e-3));
    CHECK(cost(any, 3'000'000, 3) == doctest::Approx(2 * 10e-6 + 4e-3));
    CHECK(cost(any, 6'000'000, 3) == doctest::Approx(4 * (10e-6 + 2e-3)));
  }
  // Two ranks exchange halves, there and back, or all of it at once.
  CHECK(cost(Collective::kRing, 8'000'000, 2) == doctest::Approx(2 * 10e-6 + 8e-3));
  CHECK(cost(Collective::kAuto, 8'000'000, 2) == doctest::Approx(10e-6 + 8e-3));
  CHECK(cost(Collective::kRing, 8'000'000, 4) == doctest::Approx(6 * (10e-6 + 2e-3)));
  CHECK(cost(Collective::kAuto, 8'000'000, 4) == doctest::Approx(3 * 10e-6 + 12e-3));
  CHECK(cost(Collective::kAuto, 16'000, 8) == doctest::Approx(3 * (10e-6 + 16e-6)));
}

TEST_CASE("forecast: communication that backward does not hide makes the step longer") {
  const Link fast{1e9, 0};  // 1 ms per bucket
  const double decision = train::StepSummary::kValues * 8 / 1e9;
  Forecast two = forecast(two_buckets(), 2, 32, Collective::kAuto, fast);
  CHECK(two.communication == doctest::Approx(2e-3 + decision));
  CHECK(two.exposed == doctest::Approx(1e-3 + decision));  // the last bucket
  CHECK(two.step_seconds == doctest::Approx(11e-3 + decision));
  CHECK(two.samples == 64);
  CHECK(two.images_per_second == doctest::Approx(64 / (11e-3 + decision)));
  CHECK(two.hidden() == doctest::Approx(1 - (1e-3 + decision) / (2e-3 + decision)));
  const Link slow{1e8, 0};  // 10 ms per bucket: the second waits for the first until 14 ms
  CHECK(forecast(two_buckets(), 2, 32, Collective::kAuto, slow).exposed ==
        doctest::Approx(24e-3 - 9e-3 + train::StepSummary::kValues * 8 / 1e8));
  // Messages of batch norm hide nothing.
  StepProfile normalised = two_buckets();
  normalised.statistics = {1'000'000, 1'000'000};
  CHECK(forecast(normalised, 2, 32, Collective::kAuto, fast).exposed ==
        doctest::Approx(two.exposed + 2e-3));
  const Forecast alone = forecast(normalised, 1, 32, Collective::kAuto, fast);
  CHECK(alone.step_seconds == doctest::Approx(10e-3));
  CHECK(alone.communication == 0);
}

TEST_CASE("simulate computes weak and strong scaling") {
  StepProfile profile = two_buckets();
  profile.constant = 2e-3;
  // Nothing to wait for: only the constant part of a step is lost.
  const Link instant{1e18, 0};
  const Simulation simulation = simulate(profile, 48, Collective::kAuto, instant);
  std::vector<std::int64_t> weak, strong;
  for (const Forecast& row : simulation.weak) weak.push_back(row.workers);
  for (const Forecast& row : simulation.strong) strong.push_back(row.workers);
  CHECK(weak == std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 48});
  CHECK(strong == std::vector<std::int64_t>{1, 2, 4, 8, 16, 32});  // 32 samples
  for (const Forecast& row : simulation.weak) CHECK(row.efficiency == doctest::Approx(1));
  CHECK(simulation.strong[2].samples == 32);
  CHECK(simulation.strong[2].step_seconds == doctest::Approx(2e-3 + 8e-3 / 4));
  CHECK(simulation.strong[2].efficiency == doctest::Approx(10.0 / (4 * 4)));
  // Over a real link more workers are never more efficient.
  const Simulation real = simulate(profile, 64, Collective::kAuto, {1.25e9, 20e-6});
  for (const auto& rows : {real.weak, real.strong}) {
    for (std::size_t i = 1; i < rows.size(); ++i) {
      CHECK(rows[i].efficiency < rows[i - 1].efficiency);
    }
  }
  std::ostringstream text, json;
  print_simulation(real, text);
  CHECK(text.str().find("10.000 Gbit/s each way, 20.0 us") != std::string::npos);
  results::print_json(real, json);
  CHECK(json.str().find("{\"event\":\"simulation\"") == 0);
}

TEST_CASE("make_profile: a given step time is divided by the work of the layers") {
  config::Config config;
  config.train.batch_size = 8;
  config.parallel.replicas = 2;
  config.parallel.bucket_mb = 0.001;  // 1048 bytes
  // The first layer is frozen: 100 forward only. Then 300 + 600 forward, twice that backward.
  const std::vector<model::LayerRow> layers{layer(100, 0), layer(300, 1000), layer(0, 0),
                                            layer(600, 200), layer(0, 100)};
  StepProfile profile = make_profile(0.028, "told", config, layers);
  CHECK(profile.samples == 16);
  CHECK(profile.constant == 0);
  REQUIRE(profile.buckets.size() == 2);
  CHECK(profile.buckets[0].bytes == 1200);  // of the last two
  CHECK(profile.buckets[0].ready == doctest::Approx(0.028 * (1000 + 1200) / 2800));
  CHECK(profile.buckets[1].bytes == 4000);
  CHECK(profile.buckets[1].ready == doctest::Approx(0.028));
  CHECK(profile.gradient_bytes() == 5200);
  config.parallel.bucket_mb = 0;  // all after backward
  profile = make_profile(0.028, "told", config, layers);
  REQUIRE(profile.buckets.size() == 1);
  CHECK(profile.buckets[0].bytes == 5200);
  CHECK_THROWS_AS(make_profile(0.028, "told", config, {layer(100, 0)}), ConfigError);
}

TEST_CASE("read_step_seconds reads the time of a step from the output of a benchmark") {
  const TemporaryFolder folder;
  const Path file = folder.path() / "out.jsonl";
  std::ofstream(file) << "a line of text\n{\"event\":\"step\",\"images_per_second\":null}\n"
                      << "{\"event\":\"benchmark\",\"images_per_second\":640,\"low\":600}\n";
  CHECK(read_step_seconds(file, 64) == doctest::Approx(0.1));
  std::ofstream(file) << "{\"event\":\"start\"}\n";
  CHECK_THROWS_WITH_AS(read_step_seconds(file, 64), doctest::Contains("has no images_per_second"),
                       DataError);
}

TEST_CASE("measure_step finds the gradients of the model in the order of backward") {
  config::Config config = test::build_config(
      "{layers: [conv: {filters: 4, use_bias: false}, batch_norm, activation: relu, flatten, "
      "dense: "
      "3]}",
      "");
  config.data.format = config::DataFormat::kSynthetic;
  config.data.synthetic.shape = {8, 8, 1};
  config.data.synthetic.classes = 3;
  config.train.batch_size = 16;
  config.optimizer.accumulate = 2;
  config.parallel.threads = 1;
  config.parallel.bucket_mb = 0.0001;  // about one per parameter
  config.parallel.batch_norm.sync = true;
  const data::Datasets data = data::open_datasets(config.data, 1, Split::kTrain);
  const model::SampleSpec spec{data.image_shape, data.image_type, true, 3};
  const graph::Graph model = model::build_model(config.model, config.data, spec, 1);
  const StepProfile profile = measure_step(config, {}, model, *data.train, 0.02);
  CHECK(profile.samples == 32);
  CHECK(profile.constant >= 0);
  CHECK(profile.constant <= profile.seconds);
  REQUIRE(profile.buckets.size() > 1);
  for (std::size_t i = 1; i < profile.buckets.size(); ++i) {
    CHECK(profile.buckets[i].ready >= profile.buckets[i - 1].ready);
  }
  CHECK(profile.buckets.front().ready > 0);
  CHECK(profile.buckets.back().ready <= profile.seconds);
  // Beside the gradients, two numbers and padding to whole cache lines.
  std::int64_t parameters = 0;
  for (const model::LayerRow& row : model::layer_table(model))
    parameters += row.trainable_parameters;
  CHECK(profile.gradient_bytes() >= 4 * parameters + 8);
  CHECK(profile.gradient_bytes() < 4 * parameters + 8 + 64 * 8);
  CHECK(profile.statistics.size() == 4);  // forward and backward, of two batches
}

}  // namespace trainer::commands
