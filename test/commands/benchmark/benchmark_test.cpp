// The data that benchmark measures: synthetic data for a config, and the input on its own.
#include "commands/benchmark/benchmark.h"

#include <doctest/doctest.h>

#include <sstream>

#include "commands/plan/plan_report.h"
#include "model/build_model.h"
#include "results/write_json.h"
#include "support/float_images.h"
#include "train/open.h"

namespace trainer::commands {
namespace {

using test::FloatImageFiles;

config::Config shipped(const std::string& name) {
  const std::string root = test::source_file("");
  return config::load_config(root + "/configs/" + name + ".yaml", {},
                             {{"CATS_DOGS_DIR", "/nowhere"},
                              {"OCTDL_DIR", "/nowhere"},
                              {"OCT_DIR", "/nowhere"},
                              {"MNIST_DIR", "/nowhere"},
                              {"WEIGHTS_DIR", "/nowhere"}})
      .config;
}

std::vector<std::int64_t> synthetic_shape(config::Config config, std::int64_t classes) {
  use_synthetic_data(config);
  CHECK(config.data.format == config::DataFormat::kSynthetic);
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  CHECK(data.num_classes == classes);
  return data.image_shape.dims();
}

}  // namespace

TEST_CASE("benchmark: synthetic data has the input and classes of the model of any config") {
  using Dims = std::vector<std::int64_t>;
  CHECK(synthetic_shape(shipped("octdl_mobilenet_v2"), 4) == Dims{224, 224, 3});
  CHECK(synthetic_shape(shipped("cats_dogs_mobilenet_v2_frozen"), 2) == Dims{224, 224, 3});
  CHECK(synthetic_shape(shipped("mnist"), 10) == Dims{28, 28, 1});
  // The shape is that of the data where the config has none.
  CHECK(synthetic_shape(FloatImageFiles(1).config, 3) == Dims{2, 2, 1});
  config::Config given = FloatImageFiles::parsed(
      "model: {layers: [flatten, dense: 5]}\ntrain: {epochs: 1}\n"
      "data: {format: synthetic, synthetic: {shape: [6, 4, 1], classes: 5}}\n");
  CHECK(synthetic_shape(given, 5) == Dims{6, 4, 1});
}

TEST_CASE("benchmark: input only prints the number of counted images") {
  const config::Config config = FloatImageFiles::parsed(
      "model: {layers: [flatten, dense: 5]}\ntrain: {epochs: 1, batch_size: 7}\n"
      "data: {format: synthetic, synthetic: {shape: [6, 4, 3], classes: 5}, preprocess: caffe}\n");
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  const Throughput plain = measure_input(*data.train, config, 0.02, false);
  CHECK(plain.images_per_second > 0);
  CHECK(plain.counted == "reading [6, 4, 3] uint8 images, as the loader hands them over");
  const Throughput normalized = measure_input(*data.train, config, 0.02, true);
  CHECK(normalized.counted ==
        "reading [6, 4, 3] float32 images, normalized by the loader's threads");
  std::ostringstream text, json;
  print_throughput(plain, text);
  CHECK(text.str().ends_with(" %; counted: " + plain.counted + "\n"));
  results::print_json(plain, json);
  CHECK(json.str().find(R"("batch_size":7,"counted":"reading [6, 4, 3] uint8)") !=
        std::string::npos);
}

TEST_CASE("benchmark: predictions are measured for one image and for each size of batch") {
  const config::Config config = FloatImageFiles::parsed(
      "model: {layers: [flatten, dense: 5]}\ntrain: {epochs: 1, batch_size: 7}\n"
      "evaluate: {batch_size: 32}\n"
      "data: {format: synthetic, synthetic: {shape: [6, 4, 3], classes: 5, train_samples: 9}}\n");
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  engine::Engine engine(model::build_model(config, train::sample_spec(data)), config,
                        engine::open_backends(config, {}), engine::Use::kPredict);
  engine.initialise(1);
  const auto speed = measure_prediction_speed(engine, *data.train, 0.1);
  std::vector<std::int64_t> sizes;
  for (const results::BatchSpeed& batch : speed.by_batch) {
    sizes.push_back(batch.batch_size);
    CHECK(batch.images_per_second > 0);
  }
  CHECK(sizes == std::vector<std::int64_t>{1, 2, 4, 8, 16, 32});
  CHECK(speed.latency.calls >= 5);
  CHECK(speed.latency.p50_ms > 0);
  CHECK(speed.latency.p50_ms <= speed.latency.p90_ms);
  CHECK(speed.latency.p90_ms <= speed.latency.p99_ms);
}

TEST_CASE("plan: float images without data.normalize have a note and scale 1") {
  FloatImageFiles planned(1);
  const PlannedData data = plan_data(planned.config);
  CHECK(data.notes.size() == 1);
  CHECK(data.warnings.empty());
  CHECK(config::find_normalize(planned.config.data).scale == 1);
}

}  // namespace trainer::commands
