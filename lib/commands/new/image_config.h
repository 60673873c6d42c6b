// The config of a folder, an archive or a list of images.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "commands/context/context.h"
#include "config/config.h"

namespace trainer::commands {

// Returns whether a setting is data.csv or one of its keys.
bool is_of_csv(const config::Override& setting);
// Returns data.csv with the settings of its keys. Ignores those of other keys. Throws ConfigError
// for a wrong value, and for a setting that gives images several labels.
config::Csv read_csv_settings(std::vector<config::Override> settings,
                              const config::Environment& environment);

struct ImageConfigRequest {
  std::string source;  // a folder, an archive or a list of images
  std::string output;  // the file of the config, which messages name
  std::optional<config::Backbone::Name> backbone = {};
  std::string group_by = {};
  std::vector<config::Override> settings = {};  // only those of data.csv count
};
// Returns the config as YAML. Where no pretrained weights are found, asks the user whether to
// download some, or shows the commands that do.
std::string make_image_config(const ImageConfigRequest& request, const Context& context);

// Returns <name of the source>.yaml.
std::string default_output(const Path& source);
// Writes a config. Throws ConfigError if it is not valid.
void write_config(const std::string& text, const std::string& output,
                  const config::Environment& environment);

// Returns the config file that the argument of a command names: the file itself. For images (a
// folder, or a CSV list) it is <name>.yaml in the current folder, which is written unless it
// exists; a note names it, and a warning an existing one that does not use the pretrained weights
// that are found now. Of the settings, only those of data.csv are written: without them a list
// might not be readable. Throws DataError for other folders, and ConfigError if the file exists and
// reads other data, and for a run, whose config has fewer rights (load_recorded()).
std::string find_config(const std::string& source, const std::vector<config::Override>& settings,
                        const Context& context);

}  // namespace trainer::commands
