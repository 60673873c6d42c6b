#include "commands/load_config/load_config.h"

#include "backend/open.h"
#include "cluster/identity.h"
#include "commands/new/image_config.h"
#include "inference/open_model/run_archive.h"
#include "inference/open_model/source.h"

namespace trainer::commands {

config::LoadedConfig load(const ConfigArguments& arguments, const Context& context) {
  config::Environment environment = context.environment;
  const std::string gpus = cluster::gpus_per_node(environment);
  const bool has_gpus =
      !gpus.empty() && !backend::list_gpus(backend::read_platform(environment)).gpus.empty();
  if (has_gpus) environment["NUM_GPUS"] = gpus;
  if (inference::is_run(arguments.path)) {
    return inference::load_recorded(arguments.path, arguments.overrides, environment);
  }
  config::LoadedConfig loaded = config::load_config(
      find_config(arguments.path, arguments.overrides, context), arguments.overrides, environment);
  if (has_gpus) {
    for (auto& [key, origin] : loaded.origins) {
      if (origin.detail == "NUM_GPUS") origin.detail = cluster::kProcessesPerNode;
    }
  }
  return loaded;
}

// Returns whether the GPUs of the machine decide how many replicas the config has.
static bool leaves_replicas_open(const config::LoadedConfig& loaded) {
  const config::Parallel& parallel = loaded.config.parallel;
  return parallel.device != DeviceKind::kCpu && parallel.gpus.kind == config::Gpus::Kind::kAll &&
         parallel.strategy != config::Parallel::Strategy::kParameterServer &&
         loaded.origins.at("parallel.replicas").kind == config::Origin::Kind::kDefault;
}

config::LoadedConfig load_for_devices(const ConfigArguments& arguments, const Context& context,
                                      int local_size) {
  ConfigArguments named = arguments;
  if (!inference::is_run(arguments.path)) {
    named.path = find_config(arguments.path, arguments.overrides, context);
  }
  config::LoadedConfig loaded = load(named, context);
  if (!leaves_replicas_open(loaded)) return loaded;
  const backend::GpuList list = backend::list_gpus(backend::read_platform(context.environment));
  const std::size_t gpus = list.gpus.size() / static_cast<std::size_t>(local_size);
  if (gpus < 2) return loaded;
  // Read anew, so that the rules for several replicas are checked.
  named.overrides.push_back({"parallel.replicas", std::to_string(gpus), kAllGpus});
  return load(named, context);
}

}  // namespace trainer::commands
