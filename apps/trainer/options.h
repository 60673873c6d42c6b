// Arguments that several commands take.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace trainer::app {

// What all commands that read a config take.
struct ConfigArguments {
  std::string path;
  std::vector<config::Override> overrides;  // --set and the flags that stand for keys, in order
  bool json = false;
  bool quiet = false;
};
// `arguments` must outlive the parsing.
void add_config(CLI::App& command, ConfigArguments& arguments);
// The config that they name, in this process's environment. Throws ConfigError.
config::LoadedConfig load(const ConfigArguments& arguments);
// The same for this machine's devices: `parallel.gpus: all` without parallel.replicas becomes a
// replica for every GPU, which `local_size` processes of this machine share evenly. Opens the CUDA
// backend for it.
config::LoadedConfig load_for_devices(const ConfigArguments& arguments, int local_size = 1);

// Which flags stand for one key each, beside --set: all, or those that matter to a trained model.
enum class Shorthands { kAll, kDevice, kNone };
// Appends to `overrides` in the order of the command line; they must outlive the parsing.
void add_overrides(CLI::App& command, std::vector<config::Override>& overrides,
                   Shorthands shorthands = Shorthands::kAll);

// The override that --gpus stands for: a list in brackets is YAML, anything else a text.
config::Override gpus_override(const std::string& value);

// --weights of the commands that take a config in place of a run.
void add_weights(CLI::App& command, std::string& weights);

// --average of the commands that take a run; not together with `best`.
void add_average(CLI::App& command, std::optional<std::int64_t>& average, CLI::Option* best);

// CLI11's own checks of numbers name a range of 20 to 300 digits.
CLI::Validator at_least_one();  // a whole number
CLI::Validator not_negative();
CLI::Validator positive();

}  // namespace trainer::app
