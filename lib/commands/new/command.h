// The command `new`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands/context/context.h"
#include "config/config.h"

namespace trainer::commands {

struct NewArguments {
  std::string source;  // a folder, an archive or a list of images, a run or a config
  std::string output;
  bool overwrite = false;
  std::optional<config::Backbone::Name> backbone;  // for images
  std::string group_by;                            // for images
  std::vector<config::Override> settings;
};
// Writes the config and names it with the next commands.
int execute(const NewArguments& arguments, const Context& context);

}  // namespace trainer::commands
