#include "train/benchmark.h"

#include <iostream>

#include "commands.h"
#include "model/model.h"
#include "options.h"
#include "train/open.h"

namespace trainer::app {
namespace {

struct BenchmarkArguments : ConfigArguments {
  double seconds = 5;       // measured time, after a warm-up
  bool input_only = false;  // the input pipeline alone
  bool synthetic = false;   // synthetic data of the config's shape in place of its own
};

CLI::Validator more_than_zero() {
  return {[](const std::string& text) {
            double value = 0;
            const bool right = CLI::detail::lexical_cast(text, value) && value > 0;
            return right ? "" : "expected seconds, more than 0, found " + text;
          },
          ""};
}

int benchmark(const BenchmarkArguments& arguments) {
  config::Config config = load(arguments).config;
  if (arguments.synthetic) config.data.format = config::DataFormat::kSynthetic;
  warn(train::core_warning(config.parallel));
  const data::Datasets data = train::open_training_data(config, "train");
  train::Throughput result;
  if (arguments.input_only) {
    result = train::measure_input(*data.train, config, arguments.seconds);
  } else {
    const graph::Graph model =
        model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
    train::Replicas engine(model, config, train::open_backends(config), train::Engine::Use::kTrain);
    engine.initialise(config.seed);
    result = train::measure_training(engine, *data.train, config, arguments.seconds);
  }
  if (arguments.json) {
    std::cout << "{\"event\":\"benchmark\",\"images_per_second\":" << result.images_per_second
              << ",\"low\":" << result.low << ",\"high\":" << result.high
              << ",\"steps\":" << result.steps << ",\"wait_share\":" << result.wait_share
              << ",\"batch_size\":" << config.train.batch_size << "}\n";
  } else {
    std::cout << static_cast<std::int64_t>(result.images_per_second) << " images/second ("
              << static_cast<std::int64_t>(result.low) << " to "
              << static_cast<std::int64_t>(result.high) << "), batch " << config.train.batch_size
              << ", waiting for data " << static_cast<int>(result.wait_share * 100 + 0.5) << " %\n";
  }
  return kExitOk;
}

}  // namespace

void add_benchmark(CLI::App& app, int& code) {
  const auto arguments = std::make_shared<BenchmarkArguments>();
  CLI::App* command = app.add_subcommand("benchmark", "Throughput, after a warm-up");
  add_config(*command, *arguments);
  command->add_option("--seconds", arguments->seconds, "Time to measure")->check(more_than_zero());
  command->add_flag("--input-only", arguments->input_only, "The input pipeline alone");
  command->add_flag("--synthetic", arguments->synthetic, "Synthetic data");
  command->callback([arguments, &code] { code = benchmark(*arguments); });
}

}  // namespace trainer::app
