// The backbones that a config may name, and their sizes.
#pragma once

#include <string>

#include "commands/context/context.h"

namespace trainer::commands {

struct ModelsArguments {
  std::string name;  // a backbone, whose weights are listed too; all when empty
  bool json = false;
};
// Throws ConfigError for an unknown name.
int execute(const ModelsArguments& arguments, const Context& context);

}  // namespace trainer::commands
