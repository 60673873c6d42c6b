#include "commands/profile/command.h"

#include <chrono>

#include "base/error.h"
#include "base/files/files.h"
#include "base/threads/cores.h"
#include "commands/profile/input_profile.h"
#include "commands/profile/layer_profile.h"
#include "commands/profile/profile_print.h"
#include "commands/profile/trace_file.h"
#include "model/build_model.h"
#include "results/write_json.h"
#include "train/open.h"

namespace trainer::commands {

int execute(const ProfileArguments& arguments, const Context& context) {
  check_output_path("--trace", arguments.trace, arguments.overwrite);
  const config::Config config = load_for_devices(arguments, context).config;
  const backend::Platform platform = backend::read_platform(context.environment);
  context.warn(backend::device_warning(engine::device_options(config.parallel, platform)));
  Profile profile;
  const auto start = std::chrono::steady_clock::now();
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  const std::chrono::duration<double> listed = std::chrono::steady_clock::now() - start;
  profile.limits.peak_flops =
      measure_peak(config, platform) * static_cast<double>(config.parallel.replicas);
  const graph::Graph model = model::build_model(config, train::sample_spec(data));
  engine::Engine engine(model, config, engine::open_backends(config, platform),
                        engine::Use::kTrain);
  engine.initialise(config.seed);
  profile.layers = profile_layers(engine, *data.train, config, arguments.steps);
  const LayerProfile& layers = profile.layers;
  if (engine.backend().reads_host_memory()) {
    const std::int64_t cores = usable_core_count();
    profile.limits.bandwidth =
        measure_bandwidth(static_cast<int>(config.parallel.threads.value_or(cores)));
  }
  const double rate = layers.device_seconds() > 0
                          ? static_cast<double>(layers.samples) / layers.device_seconds() /
                                static_cast<double>(layers.ranks)
                          : 0;
  profile.input = profile_input(*data.train, config, arguments.seconds, rate, layers.ranks);
  profile.input.list_seconds = listed.count();
  write_file_atomic(arguments.trace, trace_json(layers));
  (arguments.json ? results::print_json<Profile> : print_profile)(profile, context.out);
  if (!arguments.json) {
    context.out << "trace: " << arguments.trace << "; open it in ui.perfetto.dev\n";
  }
  return kExitOk;
}

}  // namespace trainer::commands
