// Configs that a command reads by its arguments.
#pragma once

#include <string>
#include <vector>

#include "commands/context/context.h"
#include "config/config.h"

namespace trainer::commands {

// The arguments of all commands that read a config.
struct ConfigArguments {
  std::string path;
  std::vector<config::Override> overrides;  // --set and the flags that stand for keys, in order
  bool json = false;
  bool quiet = false;
};

// Returns the config that they name: that of a file, the recorded config of a run (load_recorded())
// or that of images (find_config()). Throws ConfigError.
config::LoadedConfig load(const ConfigArguments& arguments, const Context& context);
// The origin of parallel.replicas where load_for_devices() has counted the GPUs.
inline constexpr const char* kAllGpus = "parallel.gpus: all";

// Returns the config for this machine's devices: `parallel.gpus: all` without parallel.replicas
// becomes a replica for every GPU, which `local_size` processes of this machine share evenly. Opens
// the CUDA backend for it.
config::LoadedConfig load_for_devices(const ConfigArguments& arguments, const Context& context,
                                      int local_size = 1);

}  // namespace trainer::commands
