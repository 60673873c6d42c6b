// Whole training runs give Keras's losses, step by step. Fixtures: test/keras/make_fixtures.py,
// whose files hold the formulas of images, labels and initial weights.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backend/cpu/cpu.h"
#include "data/samples/mix.h"
#include "engine/evaluate.h"
#include "engine/replica.h"
#include "model/build_model.h"
#include "optim/optim.h"
#include "support/source_files.h"

using namespace trainer;
using nlohmann::json;

namespace {

config::Config build_config(const json& run) {
  json text;
  text["model"] = run["model"];
  text["optimizer"] = run["optimizer"];
  text["data"] = {{"format", "synthetic"}};
  text["train"] = {{"max_steps", run["steps"]}, {"batch_size", run["batch_size"]}};
  return config::parse_config(text.dump(), "fixture", {}, {}).config;
}

// Keras 3 calls the kernel of a depthwise layer, though not that of a separable one, just kernel.
std::string keras_name(const std::string& name) {
  return name == "depthwise_conv2d/depthwise_kernel" ? "depthwise_conv2d/kernel" : name;
}

// Returns the tensors with the weights that a run starts from.
std::vector<checkpoint::Tensor> set_weights(std::vector<checkpoint::Tensor> tensors,
                                            const json& run) {
  for (checkpoint::Tensor& tensor : tensors) {
    std::size_t n = 0;
    for (const json& weight : run["weights"]) {
      if (weight["name"] == keras_name(tensor.name)) {
        for (std::size_t i = 0; i < tensor.values.size(); ++i) {
          const double angle = static_cast<double>(i + 1 + n);
          tensor.values[i] = static_cast<float>(weight["offset"].get<double>() +
                                                weight["scale"].get<double>() * std::sin(angle));
        }
      }
      ++n;
    }
  }
  return tensors;
}

struct Batch {
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
  std::vector<float> rows;  // labels with weights, where the run has them
};

std::uint8_t make_pixel(std::int64_t sample, std::int64_t label, std::int64_t i) {
  return static_cast<std::uint8_t>((i * 31 + sample * 17 + i * sample % 23 + label * i * 5) % 256);
}
float find_weight(std::int64_t sample) { return 0.75f * static_cast<float>(7 * sample % 5); }

Batch make_batch(const json& run, std::int64_t step) {
  Batch batch;
  const auto size = run["batch_size"].get<std::int64_t>(),
             samples = run["samples"].get<std::int64_t>();
  const auto classes = run["classes"].get<std::int64_t>();
  const auto shape = run["model"]["input"].get<std::vector<std::int64_t>>();
  const std::int64_t pixels = shape[0] * shape[1] * shape[2];
  // In order, epoch after epoch; the last batch of an epoch is short.
  const std::int64_t first = step % ((samples + size - 1) / size) * size;
  for (std::int64_t s = first; s < std::min(first + size, samples); ++s) {
    const std::int64_t label = s % classes;
    for (std::int64_t i = 0; i < pixels; ++i) batch.images.push_back(make_pixel(s, label, i));
    batch.labels.push_back(static_cast<std::int32_t>(label));
    if (!run.contains("sample_weight")) continue;
    const bool binary = run["model"]["loss"] == "binary_cross_entropy";
    std::vector<float> row(static_cast<std::size_t>(binary ? 1 : classes));
    data::write_label_row(batch.labels.back(), row);
    batch.rows.insert(batch.rows.end(), row.begin(), row.end());
    batch.rows.push_back(find_weight(s));
  }
  return batch;
}

void compare(const json& run, int lanes) {
  const config::Config config = build_config(run);
  const auto shape = run["model"]["input"].get<std::vector<std::int64_t>>();
  model::SampleSpec spec;
  spec.image = Shape(shape);
  spec.classes = run["classes"].get<std::int64_t>();
  if (run.contains("class_weight") && !run["class_weight"].is_null()) {
    spec.class_weight = run["class_weight"].get<std::vector<float>>();
  }
  spec.sample_weight = run.contains("sample_weight");
  backend::cpu::CpuOptions options;
  options.threads = options.lanes = lanes;
  const auto backend = backend::cpu::open_backend(options);
  engine::Replica replica(model::build_model(config.model, config.data, spec, config.seed), config,
                          *backend, engine::Use::kTrain);
  replica.initialise(config.seed);
  replica.write(set_weights(replica.tensors(), run));
  const double rate = optim::update_spec(config.optimizer).learning_rate;
  double worst = 0;
  for (std::int64_t step = 0; step < run["steps"].get<std::int64_t>(); ++step) {
    const Batch batch = make_batch(run, step);
    backend::Scalars scalars;
    scalars.learning_rate = static_cast<float>(rate);
    scalars.update = static_cast<std::uint64_t>(step + 1);
    const std::size_t count = batch.labels.size();
    scalars.loss_scale = 1.0 / static_cast<double>(count);
    const void* labels = batch.labels.data();
    if (spec.sample_weight) labels = batch.rows.data();
    replica.launch({static_cast<std::int64_t>(count), batch.images.data(), false, labels}, scalars);
    const backend::CallResult result = replica.result();
    REQUIRE(result.finite);
    const double loss = result.loss / static_cast<double>(count) + result.penalty;
    const double expected = run["losses"][static_cast<std::size_t>(step)].get<double>();
    // Rounding differs and grows from step to step.
    const double tolerance = 2e-6 * (1 + static_cast<double>(step) / 5);
    worst = std::max(worst, std::abs(loss - expected) / expected / tolerance);
  }
  CHECK(worst < 1);
  // The statistics and the parameters that the fixture keeps.
  for (const checkpoint::Tensor& tensor : replica.tensors()) {
    const auto final = run["final"].find(keras_name(tensor.name));
    if (final == run["final"].end()) continue;
    INFO(tensor.name);
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      CHECK(static_cast<double>(tensor.values[i]) ==
            doctest::Approx((*final)[i].get<double>()).epsilon(2e-3));
    }
  }
}

// The samples of a run with weights.
class Weighed final : public data::Dataset {
 public:
  explicit Weighed(const json& run)
      : size_(run["samples"].get<std::int64_t>()), classes_(run["classes"].get<std::int64_t>()) {
    spec_.image_shape = Shape(run["model"]["input"].get<std::vector<std::int64_t>>());
    spec_.in_memory = true;
    spec_.has_weights = true;
  }
  std::int64_t size() const override { return size_; }
  const data::DatasetSpec& spec() const override { return spec_; }
  using data::Dataset::get;
  void get(std::int64_t index, std::int64_t, void* image, void* label) const override {
    const std::int32_t of_class = label_at(index);
    for (std::int64_t i = 0; i < spec_.image_shape.elements(); ++i) {
      static_cast<std::uint8_t*>(image)[i] = make_pixel(index, of_class, i);
    }
    *static_cast<std::int32_t*>(label) = of_class;
  }
  std::int32_t label_at(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % classes_);
  }
  float weight_at(std::int64_t index) const override { return find_weight(index); }
  std::string fingerprint() const override { return "of a fixture"; }

 private:
  std::int64_t size_, classes_;
  data::DatasetSpec spec_;
};

}  // namespace

TEST_CASE("evaluate: sample weights give the loss and accuracy of Keras") {
  for (const char* name : {"sample_weight_sgd", "sample_weight_binary_adam"}) {
    CAPTURE(name);
    const json run = json::parse(
        std::ifstream(test::source_file(concat("test/keras/training/", name, ".json"))));
    const config::Config config = build_config(run);
    const Weighed dataset(run);
    const model::SampleSpec spec{dataset.spec().image_shape, DType::kUInt8, true,
                                 run["classes"].get<std::int64_t>()};
    engine::Engine engine(model::build_model(config.model, config.data, spec, config.seed), config,
                          engine::open_backends(config, {}), engine::Use::kEvaluate);
    engine.initialise(config.seed);
    engine.write(set_weights(engine.replica().tensors(), run));
    const auto metrics = engine::evaluate(engine, dataset, engine::evaluate_options(config));
    REQUIRE(metrics);
    const json& expected = run["evaluation_before"];
    CHECK(metrics->loss == doctest::Approx(expected["loss"].get<double>()).epsilon(1e-6));
    CHECK(metrics->accuracy == doctest::Approx(expected["accuracy"].get<double>()).epsilon(1e-6));
  }
}

TEST_CASE("Engine::step: fifty steps have the losses of Keras") {
  int runs = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_file("test/keras/training"))) {
    const json run = json::parse(std::ifstream(entry.path()));
    INFO(entry.path().filename().string());
    compare(run, 1);
    compare(run, 2);
    ++runs;
  }
  CHECK(runs >= 12);
}
