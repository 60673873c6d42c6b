#include <chrono>
#include <iostream>

#include "base/files/files.h"
#include "base/threads/cores.h"
#include "options/commands.h"
#include "commands/profile/input_profile.h"
#include "commands/profile/layer_profile.h"
#include "commands/profile/peak.h"
#include "commands/profile/profile_print.h"
#include "commands/profile/trace_file.h"
#include "model/build_model.h"
#include "options/options.h"
#include "train/open.h"

namespace trainer::app {
namespace {

struct ProfileArguments : ConfigArguments {
  std::int64_t steps = 10;
  double seconds = 4;  // for the input
  std::string trace = "trace.json";
  bool overwrite = false;  // a trace that exists
};

int profile(const ProfileArguments& arguments) {
  check_output_path("--trace", arguments.trace, arguments.overwrite);
  const config::Config config = load_for_devices(arguments).config;
  warn(backend::device_warning(engine::device_options(config.parallel)));
  commands::Profile profile;
  const auto start = std::chrono::steady_clock::now();
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  const std::chrono::duration<double> listed = std::chrono::steady_clock::now() - start;
  profile.limits.peak_flops =
      commands::measure_peak(config) * static_cast<double>(config.parallel.replicas);
  const graph::Graph model =
      model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
  engine::Replicas engine(model, config, engine::open_backends(config),
                          engine::Engine::Use::kTrain);
  engine.initialise(config.seed);
  profile.layers = commands::profile_layers(engine, *data.train, config, arguments.steps);
  const commands::LayerProfile& layers = profile.layers;
  if (engine.reads_host_memory()) {
    const std::int64_t cores = usable_core_count();
    profile.limits.bandwidth =
        commands::measure_bandwidth(static_cast<int>(config.parallel.threads.value_or(cores)));
  }
  const double rate = layers.device_seconds() > 0
                          ? static_cast<double>(layers.samples) / layers.device_seconds() /
                                static_cast<double>(layers.ranks)
                          : 0;
  profile.input =
      commands::profile_input(*data.train, config, arguments.seconds, rate, layers.ranks);
  profile.input.list_seconds = listed.count();
  write_file_atomic(arguments.trace, commands::trace_json(layers));
  (arguments.json ? commands::print_profile_json : commands::print_profile)(profile, std::cout);
  if (!arguments.json) {
    std::cout << "trace: " << arguments.trace << "; open it in ui.perfetto.dev\n";
  }
  return kExitOk;
}

}  // namespace

void add_profile(CommandLine& line) {
  const auto arguments = std::make_shared<ProfileArguments>();
  const Command command =
      line.add_command("profile", "Where the time of a step goes, by layer, and of the input");
  add_config(command, *arguments);
  command.add_option("--steps", arguments->steps, "Steps to record, after a warm-up")
      .at_least_one();
  command.add_option("--trace", arguments->trace, "File for Perfetto or chrome://tracing");
  command.add_flag("--overwrite", arguments->overwrite, "Replace a trace that exists");
  command.run([arguments] { return profile(*arguments); });
}

}  // namespace trainer::app
