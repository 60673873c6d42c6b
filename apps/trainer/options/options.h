// Arguments that several commands take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "line/command_line.h"
#include "commands/open_model/open_model.h"
#include "config/config.h"

namespace trainer::app {

// The arguments of all commands that read a config.
struct ConfigArguments {
  std::string path;
  std::vector<config::Override> overrides;  // --set and the flags that stand for keys, in order
  bool json = false;
  bool quiet = false;
};
// `arguments` must outlive the parsing.
void add_config(const Command& command, ConfigArguments& arguments);
// Describes the argument that find_config() takes.
inline constexpr const char* kConfigHelp =
    "Config file (YAML), or a folder, zip archive or CSV list of images, whose config is written "
    "as by `new`";
// The config that they name, in this process's environment: a file, the recorded config of a run
// (load_recorded()), or that of images (find_config()). Throws ConfigError.
config::LoadedConfig load(const ConfigArguments& arguments);
// Throws ConfigError for a config that does not exist here and is installed with the program.
void reject_installed_elsewhere(const std::string& path);
// Returns whether a source is a run folder.
bool is_run(const std::string& source);
// Returns the config that a run folder records, whose author is not trusted: see
// config::parse_recorded_config(), with its paths as commands::find_recorded_paths() finds them.
// The overrides are the user's own.
config::LoadedConfig load_recorded(const std::string& run,
                                   const std::vector<config::Override>& overrides);
// Returns the config for this machine's devices: `parallel.gpus: all` without parallel.replicas
// becomes a replica for every GPU, which `local_size` processes of this machine share evenly. Opens
// the CUDA backend for it.
config::LoadedConfig load_for_devices(const ConfigArguments& arguments, int local_size = 1);

// The flags that stand for one key each, beside --set: all, or those for a trained model.
enum class Shorthands { kAll, kDevice, kNone };
// Appends to `overrides` in the order of the command line; they must outlive the parsing.
void add_overrides(const Command& command, std::vector<config::Override>& overrides,
                   Shorthands shorthands = Shorthands::kAll);

// The override that --gpus stands for: a list in brackets is YAML, anything else a text.
config::Override gpus_override(const std::string& value);

// The arguments of all commands that open a model.
struct ModelArguments {
  std::string model;                    // a run folder, a checkpoint or a config
  std::string weights;                  // a weight file for a config
  bool best = false, last = false;      // the checkpoint of a run
  std::optional<std::int64_t> average;  // the number of last checkpoints to average
  std::vector<config::Override> overrides;
};
// Adds --weights, --best, --last and --average; `arguments` must outlive the parsing.
void add_model(const Command& command, ModelArguments& arguments);
// Adds --last; `last` must outlive the parsing.
Option add_last(const Command& command, bool& last);
commands::OpenedModel open_model(const ModelArguments& arguments);
// Adds --ensemble, which must name a run; `ensemble` must outlive the parsing.
Option add_ensemble(const Command& command, std::string& ensemble);
// Opens the model and the runs that `ensemble` lists with commas between.
std::vector<commands::OpenedModel> open_models(ModelArguments arguments,
                                               const std::string& ensemble);

}  // namespace trainer::app
