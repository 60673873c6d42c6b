#include "train/benchmark.h"

#include <iostream>

#include "commands.h"
#include "model/model.h"
#include "train/open.h"

namespace trainer::app {

int benchmark(const BenchmarkArguments& arguments) {
  config::Config config =
      config::load_config(arguments.path, arguments.overrides, environment()).config;
  if (arguments.synthetic) train::use_synthetic_data(config);
  warn(train::core_warning(config.parallel));
  const data::Datasets data = train::open_training_data(config, "train");
  train::Throughput result;
  if (arguments.input_only) {
    result = train::measure_input(*data.train, config, arguments.seconds, arguments.normalize);
  } else {
    const graph::Graph model =
        model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
    train::Replicas engine(model, config, train::open_backends(config), train::Engine::Use::kTrain);
    engine.initialise(config.seed);
    result = train::measure_training(engine, *data.train, config, arguments.seconds);
  }
  (arguments.json ? train::print_throughput_json : train::print_throughput)(result, std::cout);
  return kExitOk;
}

}  // namespace trainer::app
