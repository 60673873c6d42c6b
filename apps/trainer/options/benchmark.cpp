#include "commands/benchmark/benchmark.h"

#include <iostream>

#include "options/commands.h"
#include "commands/measure/measured.h"
#include "model/build_model.h"
#include "model/table.h"
#include "options/options.h"
#include "train/open.h"
#include "train/resolve_batch_size.h"

namespace trainer::app {
namespace {

struct BenchmarkArguments : ConfigArguments {
  double seconds = 5;       // measured time, after a warm-up
  bool input_only = false;  // the input pipeline alone
  bool predict = false;     // forward passes alone
  bool normalize = false;   // input_only: to the numbers that the model's first layer reads
  bool synthetic = false;   // synthetic data of the config's shape in place of its own
};

int benchmark(const BenchmarkArguments& arguments) {
  config::Config config = load_for_devices(arguments).config;
  if (arguments.synthetic) commands::use_synthetic_data(config);
  warn(backend::device_warning(engine::device_options(config.parallel)));
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  commands::Throughput result;
  if (arguments.input_only) {
    result = commands::measure_input(*data.train, config, arguments.seconds, arguments.normalize);
  } else {
    const graph::Graph model =
        model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
    warn(train::resolve_batch_size(config, model, data.train->size()));
    using Use = engine::Engine::Use;
    engine::Replicas engine(model, config, engine::open_backends(config),
                            arguments.predict ? Use::kPredict : Use::kTrain);
    engine.initialise(config.seed);
    const auto measured =
        arguments.predict ? commands::measure_prediction : commands::measure_training;
    result = measured(engine, *data.train, config, arguments.seconds);
    if (!arguments.predict) {
      result.measured = commands::measured_keys(model::layer_table(model), config);
    }
  }
  (arguments.json ? commands::print_throughput_json : commands::print_throughput)(result,
                                                                                  std::cout);
  return kExitOk;
}

}  // namespace

void add_benchmark(CommandLine& line) {
  const auto arguments = std::make_shared<BenchmarkArguments>();
  const Command command = line.add_command("benchmark", "Throughput, after a warm-up");
  add_config(command, *arguments);
  command.add_option("--seconds", arguments->seconds, "Time to measure").positive();
  const Option input_only =
      command.add_flag("--input-only", arguments->input_only, "The input pipeline alone");
  command
      .add_flag("--normalize", arguments->normalize,
                "Let the loader's threads normalize to float32 too, as other programs' do")
      .needs(input_only);
  command.add_flag("--predict", arguments->predict, "Predictions in place of training steps")
      .excludes(input_only);
  command.add_flag("--synthetic", arguments->synthetic,
                   "Random images of the model's input and classes as data");
  command.run([arguments] { return benchmark(*arguments); });
}

}  // namespace trainer::app
