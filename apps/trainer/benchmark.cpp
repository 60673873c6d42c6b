#include "train/benchmark.h"

#include <iostream>

#include "base/error.h"
#include "commands.h"
#include "model/model.h"
#include "train/measured.h"
#include "train/open.h"

namespace trainer::app {

int benchmark(const BenchmarkArguments& arguments) {
  config::Config config =
      config::load_config(arguments.path, arguments.overrides, environment()).config;
  if (arguments.synthetic) config.data.format = config::DataFormat::kSynthetic;
  warn(train::core_warning(config.parallel));
  const data::Datasets data = train::open_training_data(config, "train");
  train::Throughput result;
  std::string measured;  // of JSON
  if (arguments.input_only) {
    result = train::measure_input(*data.train, config, arguments.seconds);
  } else {
    const graph::Graph model =
        model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
    train::Replicas engine(model, config, train::open_backends(config), train::Engine::Use::kTrain);
    engine.initialise(config.seed);
    result = train::measure_training(engine, *data.train, config, arguments.seconds);
    measured = "," + train::measured_keys(model::layer_table(model), config);
  }
  if (arguments.json) {
    std::cout << "{\"event\":\"benchmark\",\"images_per_second\":" << result.images_per_second
              << ",\"low\":" << result.low << ",\"high\":" << result.high
              << ",\"steps\":" << result.steps << ",\"wait_share\":" << result.wait_share
              << (measured.empty() ? concat(",\"batch_size\":", config.train.batch_size) : measured)
              << "}\n";
  } else {
    std::cout << static_cast<std::int64_t>(result.images_per_second) << " images/second ("
              << static_cast<std::int64_t>(result.low) << " to "
              << static_cast<std::int64_t>(result.high) << "), batch " << config.train.batch_size
              << ", waiting for data " << static_cast<int>(result.wait_share * 100 + 0.5) << " %\n";
  }
  return kExitOk;
}

}  // namespace trainer::app
