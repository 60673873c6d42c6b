#include <iostream>

#include "base/files/files.h"
#include "options/commands.h"
#include "commands/find/find_chart.h"
#include "commands/sweep/grid.h"
#include "model/files/import.h"
#include "options/options.h"
#include "train/open.h"
#include "train/resolve_batch_size.h"

namespace trainer::app {
namespace {

struct FindArguments : ConfigArguments {
  std::string what;  // learning-rate or batch-size
  std::string plot;
  bool overwrite = false;
  commands::RangeTestOptions rates;
  commands::BatchSizeOptions sizes;
};

commands::RangeTest test_rates(const FindArguments& arguments, config::Config config) {
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  warn(train::resolve_normalize(config, data));
  const graph::Graph model =
      model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
  warn(train::resolve_batch_size(config, model, data.train->size()));
  engine::Replicas engine(model, config, engine::open_backends(config),
                          engine::Engine::Use::kTrain);
  engine.initialise(config.seed);
  engine.write(model::import_weights(engine.model(), config.model).tensors);
  return commands::test_learning_rates(engine, *data.train, config, arguments.rates);
}

int find(const FindArguments& arguments) {
  if (!arguments.plot.empty()) check_output_path("--plot", arguments.plot, arguments.overwrite);
  if (!(arguments.rates.low < arguments.rates.high)) {
    throw ConfigError({}, "--low must be less than --high");
  }
  const config::Config config = load(arguments).config;
  warn(backend::device_warning(engine::device_options(config.parallel)));
  commands::Chart chart;
  if (arguments.what == "learning-rate") {
    const commands::RangeTest test = test_rates(arguments, config);
    const std::string key = commands::learning_rate_key(config);
    (arguments.json ? commands::print_range_test_json : commands::print_range_test)(test, key,
                                                                                    std::cout);
    chart = commands::make_chart(test);
  } else {
    const commands::BatchSizes sizes = commands::find_batch_sizes(config, arguments.sizes);
    (arguments.json ? commands::print_batch_sizes_json : commands::print_batch_sizes)(sizes,
                                                                                      std::cout);
    chart = commands::make_chart(sizes);
  }
  if (!arguments.plot.empty()) write_file_atomic(arguments.plot, commands::svg_document(chart));
  return kExitOk;
}

}  // namespace

void add_find(CommandLine& line) {
  const auto arguments = std::make_shared<FindArguments>();
  const Command command = line.add_command(
      "find", "A learning rate by a range test, or a batch size by measuring throughput");
  command.add_option("what", arguments->what, "learning-rate or batch-size")
      .required()
      .choices({"learning-rate", "batch-size"});
  add_config(command, *arguments);
  command.add_option("--plot", arguments->plot, "Write what was measured to this SVG file");
  command.add_flag("--overwrite", arguments->overwrite, "Replace a plot that exists");
  command.add_option("--low", arguments->rates.low, "learning-rate: the first rate").positive();
  command.add_option("--high", arguments->rates.high, "learning-rate: the last rate").positive();
  command.add_option("--steps", arguments->rates.steps, "learning-rate: how many rates")
      .in_range(10, 1000000);
  command.add_option("--first", arguments->sizes.first, "batch-size: the smallest").at_least_one();
  command.add_option("--most", arguments->sizes.most, "batch-size: the largest").at_least_one();
  command.add_option("--seconds", arguments->sizes.seconds, "batch-size: time to measure each")
      .positive();
  command.run([arguments] { return find(*arguments); });
}

}  // namespace trainer::app
