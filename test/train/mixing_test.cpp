// Mixed samples from the config to the loss of a training step.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <tuple>

#include "base/files/files.h"
#include "data/samples/mix.h"
#include "engine/evaluate.h"
#include "engine/replica.h"
#include "model/build_model.h"
#include "train/open.h"

namespace trainer::train {
namespace {

config::Config build_config(const std::string& model, int classes, const std::string& augment) {
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

double binary_loss(const float* logits, const float* shares, std::int64_t n) {
  double loss = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double p = 1 / (1 + std::exp(-static_cast<double>(logits[i])));
    const double t = static_cast<double>(shares[i]);
    loss += -t * std::log(p) - (1 - t) * std::log(1 - p);
  }
  return loss / static_cast<double>(n);
}

// One training step, and an evaluation of the test split by the same engine.
void check(const config::Config& config, double (*loss)(const float*, const float*, std::int64_t)) {
  const data::Datasets data = train::open_training_data(config);
  REQUIRE(!data.train->spec().label_is_index());
  CHECK(data.label_is_index);
  CHECK(data.validation->spec().label_is_index());
  const graph::Graph model =
      model::build_model(config.model, config.data, sample_spec(data), config.seed);
  engine::Engine engine(model, config, engine::open_backends(config, {}), engine::Use::kTrain);
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
  const std::int64_t n = engine.replica().outputs();
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

TEST_CASE("mixup: a training step takes shares of classes, and an evaluation takes class indices") {
  check(build_config("layers: [flatten, dense: 2]", 2, "mixup"), softmax_loss);
  check(build_config("layers: [flatten, dense: 2], label_smoothing: 0", 2, "mixup: 2, cutmix"),
        softmax_loss);
  check(build_config("loss: binary_cross_entropy, layers: [flatten, dense: 1]", 2, "mixup: 2"),
        binary_loss);
  check(build_config("loss: binary_cross_entropy, layers: [flatten, dense: 3]", 3, "mixup, cutmix"),
        binary_loss);
}

TEST_CASE("mixup: epochs of a config count all repeats of its samples") {
  config::Config config = build_config("layers: [flatten, dense: 3]", 3, "mixup: {epochs: 2}");
  config.data.repeats = 3;
  const data::Datasets data = train::open_training_data(config);
  const auto count_mixed = [&](std::int64_t epoch) {
    std::vector<std::byte> image(data.train->spec().image_bytes());
    std::vector<float> row(3);
    int mixed = 0;
    for (std::int64_t i = 0; i < data.train->size(); ++i) {
      data.train->get(i, epoch, image.data(), row.data());
      mixed += *std::max_element(row.begin(), row.end()) < 1 ? 1 : 0;
    }
    return mixed;
  };
  CHECK(count_mixed(5) > 3);
  CHECK(count_mixed(6) == 0);
}

namespace {

// A list of drawn images of two classes with weights from 0 to 2.
void write_weighed_list(const Path& folder) {
  std::ofstream list(folder / "list.csv");
  list << "path,label,sample_weight\n";
  for (int i = 0; i < 24; ++i) {
    std::ofstream image(folder / concat(i, ".ppm"), std::ios::binary);
    image << "P6 6 6 255\n";
    for (int p = 0; p < 108; ++p) image.put(static_cast<char>((i * 37 + p * (i + 3)) % 251));
    list << i << ".ppm," << (i % 2 == 0 ? "left" : "right") << ',' << 0.5 * (i % 5) << '\n';
  }
}

// The sum of share * weight * loss over both samples of each mixed one, in double precision: of the
// logits of the mixed images.
double sum_of_losses(const std::vector<float>& logits, const data::Datasets& plain,
                     const config::Config& config) {
  double sum = 0;
  const std::int64_t n = config.model.loss == LossKind::kBinaryCrossEntropy ? 1 : 2;
  const auto size = plain.train->size();
  for (std::int64_t s = 0; s < size; ++s) {
    const data::Mixture m = data::draw_mixture(config.data.train.augment, config.seed, 0, s, size,
                                               plain.train->spec().image_shape);
    for (const auto& [sample, share] : {std::pair{s, m.share}, {m.partner, 1 - m.share}}) {
      const std::int32_t label = plain.train->label_at(sample);
      const double smoothed = 1 - config.model.label_smoothing / 2;
      float row[2] = {static_cast<float>(label == 0 ? smoothed : 1 - smoothed),
                      static_cast<float>(label == 1 ? smoothed : 1 - smoothed)};
      const float* z = logits.data() + s * n;
      sum += share * static_cast<double>(plain.train->weight_at(sample)) *
             (n == 1 ? binary_loss(z, row + 1, 1) : softmax_loss(z, row, 2));
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("mixed samples with weights: loss and gradient are those of both samples") {
  const TemporaryFolder folder;
  write_weighed_list(folder.path());
  for (const char* model : {"layers: [flatten, dense: 2], label_smoothing: 0.1",
                            "layers: [flatten, dense: 1], loss: binary_cross_entropy"}) {
    for (const char* mixing : {"mixup: 2", "cutmix"}) {
      CAPTURE(model);
      CAPTURE(mixing);
      const auto with = [&](const std::string& augment) {
        return config::parse_config(concat("model: {", model,
                                           "}\ndata: {format: csv, resize: [6, 6], train: {path: ",
                                           (folder.path() / "list.csv").string(), augment,
                                           "}}\noptimizer: {sgd: {learning_rate: 1}}\n",
                                           "train: {epochs: 1, batch_size: 24}\n"),
                                    "mix.yaml", {}, {})
            .config;
      };
      const config::Config config = with(concat(", augment: [", mixing, "]"));
      const data::Datasets plain = data::open_datasets(with("").data, config.seed);
      const data::Datasets data = open_training_data(config);
      REQUIRE(data.sample_weight);
      engine::Engine engine(
          model::build_model(config.model, config.data, sample_spec(data), config.seed), config,
          engine::open_backends(config, {}), engine::Use::kTrain);
      engine.initialise(config.seed);
      data::LoaderOptions options;
      options.batch_size = 24;
      options.shuffle = false;
      const auto loader = data::make_loader(*data.train, options);
      const data::Batch* batch = loader->next();
      const std::vector<std::int32_t> no_labels(24);
      const auto expected = [&] {
        engine.evaluate({24, batch->images, false, no_labels.data()});
        const auto logits = engine.logits();
        return sum_of_losses({logits.begin(), logits.end()}, plain, config) / 24;
      };
      // Central differences of the expected loss by some parameters.
      const std::vector<checkpoint::Tensor> start = engine.replica().tensors();
      std::vector<std::tuple<std::size_t, std::size_t, double>> slopes;
      for (std::size_t t = 0; t < start.size(); ++t) {
        if (start[t].name.find('/') == std::string::npos) continue;
        for (const std::size_t i : {std::size_t{0}, start[t].values.size() / 2}) {
          constexpr float kStep = 1.0f / 256;
          const auto at = [&](float by) {
            std::vector<checkpoint::Tensor> moved = start;
            moved[t].values[i] += by;
            engine.write(moved);
            return expected();
          };
          slopes.emplace_back(t, i, (at(kStep) - at(-kStep)) / (2.0 * static_cast<double>(kStep)));
        }
      }
      engine.write(start);
      const double loss = expected();
      backend::Scalars scalars;
      scalars.learning_rate = 1;
      scalars.update = 1;
      scalars.loss_scale = 1.0 / 24;
      const engine::StepResult result = engine.step(engine::host_batch(*batch, false), scalars);
      REQUIRE(result.finite);
      CHECK(result.loss / 24 == doctest::Approx(loss).epsilon(1e-5));
      const std::vector<checkpoint::Tensor> after = engine.replica().tensors();
      REQUIRE(slopes.size() >= 4);
      for (const auto& [t, i, slope] : slopes) {
        CAPTURE(start[t].name);
        const auto gradient = static_cast<double>(start[t].values[i] - after[t].values[i]);
        CHECK(std::abs(gradient - slope) <= 1e-3 * std::max(0.1, std::abs(slope)));
      }
    }
  }
}

TEST_CASE(
    "several labels with weights of samples: each loss is multiplied by the weight of its sample") {
  const TemporaryFolder folder;
  std::ofstream list(folder.path() / "list.csv");
  list << "path,a,b,c,sample_weight\n";
  for (int i = 0; i < 12; ++i) {
    std::ofstream(folder.path() / concat(i, ".pgm"), std::ios::binary)
        << "P5 2 2 255\n"
        << std::string(4, static_cast<char>(i * 20));
    list << i << ".pgm," << i % 2 << ',' << i / 2 % 2 << ",1," << 0.5 * (i % 4) << '\n';
  }
  list.close();
  for (const std::string weights : {"", ", pos_weight: {a: 3}"}) {
    CAPTURE(weights);
    const config::Config config =
        config::parse_config(
            concat("model: {layers: [flatten, dense: 3], loss: binary_cross_entropy}\n",
                   "data: {format: csv, resize: [2, 2], channels: 1, train: {path: ",
                   (folder.path() / "list.csv").string(), "}, validation_split: 0.25}\n",
                   "train: {epochs: 1, batch_size: 9", weights, "}\n"),
            "labels.yaml", {}, {})
            .config;
    const data::Datasets data = open_training_data(config);
    REQUIRE(data.sample_weight);
    engine::Engine engine(
        model::build_model(config.model, config.data, sample_spec(data), config.seed), config,
        engine::open_backends(config, {}), engine::Use::kTrain);
    engine.initialise(config.seed);
    data::LoaderOptions options;
    options.batch_size = 9;
    const auto loader = data::make_loader(*data.train, options);
    const data::Batch* batch = loader->next();
    REQUIRE(batch->range.count == 9);
    const std::vector<float> no_labels(27);
    engine.evaluate({9, batch->images, false, no_labels.data()});
    const std::vector<float> logits(engine.logits().begin(), engine.logits().end());
    backend::Scalars scalars;
    scalars.learning_rate = 0.1f;
    scalars.update = 1;
    scalars.loss_scale = 1.0 / 9;
    REQUIRE(engine.step(engine::host_batch(*batch, false), scalars).finite);
    for (std::size_t s = 0; s < 9; ++s) {
      const float* row = static_cast<const float*>(batch->labels) + s * 4;
      double expected = 0;
      for (std::size_t label = 0; label < 3; ++label) {
        const bool is_weighed = !weights.empty() && label == 0 && row[0] == 1.0f;
        expected += binary_loss(&logits[s * 3 + label], row + label, 1) * (is_weighed ? 3 : 1) / 3;
      }
      const auto weight = static_cast<double>(data.train->weight_at(batch->indices[s]));
      CHECK(static_cast<double>(row[3]) == weight);
      CHECK(static_cast<double>(engine.losses()[s]) == doctest::Approx(weight * expected));
    }
    const auto metrics =
        engine::evaluate(engine, *data.validation, engine::evaluate_options(config));
    REQUIRE(metrics.has_value());
    CHECK(metrics->count == 3);
  }
}

TEST_CASE("mixup: the layer of values that are not finite is found") {
  const config::Config config =
      build_config("layers: [flatten, dense: {units: 3, name: last}]", 3, "mixup");
  const data::Datasets data = train::open_training_data(config);
  const graph::Graph model =
      model::build_model(config.model, config.data, sample_spec(data), config.seed);
  engine::Engine engine(model, config, engine::open_backends(config, {}), engine::Use::kTrain);
  engine.initialise(config.seed);
  std::vector<checkpoint::Tensor> tensors = engine.replica().tensors();
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
