// Options that several commands take.
#pragma once

#include <string>
#include <vector>

#include "commands/load_config/load_config.h"
#include "commands/model_arguments/model_arguments.h"
#include "config/config.h"
#include "context.h"
#include "options/commands.h"

namespace trainer::app {

// Adds --set and the flags that stand for keys, --json and --quiet; `arguments` must outlive the
// parsing.
void add_settings(const Command& command, commands::ConfigArguments& arguments);
// Adds the config and its settings.
void add_config(const Command& command, commands::ConfigArguments& arguments);
// Describes the argument that find_config() takes.
inline constexpr const char* kConfigHelp =
    "Config file (YAML), or a folder, zip archive or CSV list of images, whose config is written "
    "as by `new`";
// The flags that stand for one key each, beside --set: all, or those for a trained model.
enum class Shorthands { kAll, kDevice, kNone };
// Appends to `overrides` in the order of the command line; they must outlive the parsing.
void add_overrides(const Command& command, std::vector<config::Override>& overrides,
                   Shorthands shorthands = Shorthands::kAll);
// Adds an option that stands for `key`; `overrides` must outlive the parsing.
Option add_override(const Command& command, std::vector<config::Override>& overrides,
                    const std::string& name, const char* key, const char* help);

// The override that --gpus stands for: a list in brackets is YAML, anything else a text.
config::Override gpus_override(const std::string& value);

// Adds --weights, --best, --last and --average; `arguments` must outlive the parsing.
void add_model(const Command& command, commands::ModelArguments& arguments);
// Adds --last; `last` must outlive the parsing.
Option add_last(const Command& command, bool& last);
// Adds --ensemble, which must name a run; `ensemble` must outlive the parsing.
Option add_ensemble(const Command& command, std::string& ensemble);

}  // namespace trainer::app
