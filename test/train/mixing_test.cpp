// Mixed samples from the config to the loss of a training step.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/engine.h"
#include "engine/evaluate.h"
#include "model/model.h"
#include "train/open.h"

namespace trainer::train {
namespace {

config::Config config_of(const std::string& model, int classes, const std::string& augment) {
  const std::string text =
      "model: {" + model + "}\n" +
      "data: {format: synthetic, synthetic: {shape: [6, 6, 1], classes: " +
      std::to_string(classes) + ", train_samples: 40, test_samples: 10}, validation_split: 0.2, " +
      "train: {augment: [" + augment + "]}}\ntrain: {epochs: 1, batch_size: 16}\n";
  return config::parse_config(text, "mix.yaml", {}, {}).config;
}

double softmax_loss(const float* logits, const float* shares, std::int64_t n) {
  double sum = 0, loss = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(logits[i]));
  for (std::int64_t i = 0; i < n; ++i) {
    loss += static_cast<double>(shares[i]) * (std::log(sum) - static_cast<double>(logits[i]));
  }
  return loss;
}

double binary_loss(const float* logit, const float* share, std::int64_t) {
  const double p = 1 / (1 + std::exp(-static_cast<double>(*logit)));
  const double t = static_cast<double>(*share);
  return -t * std::log(p) - (1 - t) * std::log(1 - p);
}

// One training step, and an evaluation of the test split by the same engine.
void check(const config::Config& config, double (*loss)(const float*, const float*, std::int64_t)) {
  const data::Datasets data = train::open_training_data(config);
  REQUIRE(!data.train->spec().label_is_index());
  CHECK(data.label_is_index);
  CHECK(data.validation->spec().label_is_index());
  const graph::Graph model =
      model::build_model(config.model, config.data, sample_spec(data), config.seed);
  engine::Replicas engine(model, config, engine::open_backends(config),
                          engine::Engine::Use::kTrain);
  engine.initialise(config.seed);
  data::LoaderOptions options;
  options.batch_size = 16;
  const auto loader = data::make_loader(*data.train, options);
  const data::Batch* batch = loader->next();
  backend::Scalars scalars;
  scalars.learning_rate = 0.1f;
  scalars.update = 1;
  scalars.loss_scale = 1.0 / 16;
  // The logits before the step; no layer of these models trains otherwise than it evaluates.
  const std::vector<std::int32_t> no_labels(16);
  engine.evaluate({16, batch->images, false, no_labels.data()});
  const std::vector<float> logits(engine.logits().begin(), engine.logits().end());
  REQUIRE(engine.step(engine::host_batch(*batch, false), scalars).finite);
  const std::int64_t n = engine.outputs();
  const auto* shares = static_cast<const float*>(batch->labels);
  const std::vector<std::int32_t> largest = engine::label_indices(*data.train, *batch);
  int fractions = 0;
  for (std::int64_t s = 0; s < 16; ++s) {
    const float* row = shares + s * n;
    const double expected = loss(logits.data() + s * n, row, n);
    CHECK(static_cast<double>(engine.losses()[static_cast<std::size_t>(s)]) ==
          doctest::Approx(expected).epsilon(1e-5));
    fractions += row[0] > 0.001f && row[0] < 0.999f ? 1 : 0;
    // Accuracy counts against the class of the larger share.
    const auto label = static_cast<std::size_t>(largest[static_cast<std::size_t>(s)]);
    CHECK((n == 1 ? label == (row[0] > 0.5f ? 1u : 0u) : row[label] >= 0.5f));
  }
  CHECK(fractions > 3);
  const auto metrics = engine::evaluate(engine, *data.test, engine::evaluate_options(config));
  REQUIRE(metrics.has_value());
  CHECK(metrics->count == 10);
  CHECK(std::isfinite(metrics->loss));
}

}  // namespace

TEST_CASE("a training step takes shares of classes, an evaluation class indices") {
  check(config_of("layers: [flatten, dense: 2]", 2, "mixup"), softmax_loss);
  check(config_of("layers: [flatten, dense: 2], label_smoothing: 0", 2, "mixup: 2, cutmix"),
        softmax_loss);
  check(config_of("loss: binary_cross_entropy, layers: [flatten, dense: 1]", 2, "mixup: 2"),
        binary_loss);
}

TEST_CASE("the layer that is not finite is found with mixed samples too") {
  const config::Config config =
      config_of("layers: [flatten, dense: {units: 3, name: last}]", 3, "mixup");
  const data::Datasets data = train::open_training_data(config);
  const graph::Graph model =
      model::build_model(config.model, config.data, sample_spec(data), config.seed);
  engine::Replicas engine(model, config, engine::open_backends(config),
                          engine::Engine::Use::kTrain);
  engine.initialise(config.seed);
  std::vector<checkpoint::Tensor> tensors = engine.tensors();
  for (checkpoint::Tensor& tensor : tensors) {
    if (tensor.name == "last/kernel") {
      std::fill(tensor.values.begin(), tensor.values.end(), 3e38f);
    }
  }
  engine.write(tensors);
  const std::vector<std::uint8_t> images(16 * 36, 255);
  const std::vector<float> labels(16 * 3, 0.3f);
  backend::Scalars scalars;
  scalars.loss_scale = 1;
  const engine::HostBatch batch{16, images.data(), false, labels.data()};
  CHECK(!engine.step(batch, scalars).finite);
  CHECK(engine.find_not_finite(batch, scalars).find("layer last") != std::string::npos);
}

}  // namespace trainer::train
