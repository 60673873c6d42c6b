// train.precision on its way to the products, TF32 rounds what they read and float32 does not; and
// on the way of the logits to the host.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/engine.h"
#include "support/backend.h"
#include "support/model.h"

namespace trainer::engine {
namespace {

constexpr std::int64_t kSamples = 5, kPixels = 8 * 8;

std::unique_ptr<Engine> make(const std::string& model, config::Precision precision) {
  config::Config config = test::build_config(model);
  config.train.precision = precision;
  config.train.batch_size = kSamples;
  config.parallel.threads = 1;
  const graph::Graph graph =
      model::build_model(config.model, config.data, test::sample({8, 8, 1}, 3), 1);
  auto engine = std::make_unique<Engine>(
      graph, config, test::open_test_backends(device_options(config.parallel, {})), Use::kTrain);
  engine->initialise(3);
  return engine;
}

std::vector<float> logits(Engine& engine) {
  std::vector<std::uint8_t> images;
  for (std::int64_t i = 0; i < kSamples * kPixels; ++i) {
    images.push_back(static_cast<std::uint8_t>(i * 37 % 251));
  }
  const std::vector<std::int32_t> labels(kSamples, 1);
  engine.evaluate({kSamples, images.data(), false, labels.data()});
  const std::span<const float> all = engine.logits();
  return {all.begin(), all.begin() + kSamples * 3};
}

// |a - b| over |b|, of the largest.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    size = std::max(size, std::abs(static_cast<double>(b[i])));
  }
  return difference / size;
}

// Enough channels for tensor cores, and a dense layer that sees hardly anything else.
const char* const kConvolutions =
    "{layers: [conv: {filters: 16, padding: same}, conv: {filters: 32, padding: same}, flatten, "
    "dense: 3]}";
const char* const kDense = "{layers: [flatten, dense: 3]}";

}  // namespace

TEST_CASE(
    "precision: tf32 rounds the products of convolutions and dense layers, float32 does not") {
  for (const char* model : {kConvolutions, kDense}) {
    CAPTURE(std::string(model));
    const auto whole = make(model, config::Precision::kFloat32);
    if (!test::open_test_backend()->has_tf32()) {
      CHECK_THROWS_WITH_AS(
          make(model, config::Precision::kTf32),
          doctest::Contains("train.precision: tf32 is not supported by this device"), ConfigError);
      continue;
    }
    const auto rounded = make(model, config::Precision::kTf32);
    CHECK(whole->replica().parameters_sha256() == rounded->replica().parameters_sha256());
    const std::vector<float> expected = logits(*whole);
    CHECK(logits(*make(model, config::Precision::kFloat32)) == expected);
    // TF32 keeps 10 bits of each factor: half a unit is 2^-11.
    const double moved = distance(logits(*rounded), expected);
    CHECK(moved > 1e-6);
    CHECK(moved < 4e-3);
  }
}

TEST_CASE("precision: auto computes in the type that the device prefers") {
  const bool wide = !test::open_test_backend()->prefers_bfloat16();
  const auto expected =
      logits(*make(kDense, wide ? config::Precision::kFloat32 : config::Precision::kBFloat16));
  CHECK(logits(*make(kDense, config::Precision::kAuto)) == expected);
}

TEST_CASE("precision: logits of a last layer of any kind are read in the type that it gives") {
  const std::string convolution = "conv: {filters: 3, padding: same}";
  for (const std::string& last :
       {convolution + ", global_average_pool", convolution + ", global_max_pool, activation: tanh",
        std::string("flatten, dense: 3")}) {
    CAPTURE(last);
    const std::string model = concat("{layers: [conv: {filters: 16, padding: same}, ", last, "]}");
    const std::vector<float> expected = logits(*make(model, config::Precision::kFloat32));
    for (const auto precision : {config::Precision::kBFloat16, config::Precision::kFloat16}) {
      const bool wide = precision == config::Precision::kBFloat16;
      if (!test::open_test_backend()->supports(wide ? DType::kBFloat16 : DType::kFloat16)) continue;
      const double moved = distance(logits(*make(model, precision)), expected);
      CHECK(moved > 0);
      CHECK(moved < 0.05);
    }
  }
}

}  // namespace trainer::engine
