// The command `validate`.
#pragma once

#include <string>
#include <vector>

#include "commands/context/context.h"
#include "config/config.h"

namespace trainer::commands {

struct ValidateArguments {
  std::vector<std::string> configs;
  std::vector<config::Override> overrides;
  bool json = false;
};
// Returns the exit code of the last config with errors.
int execute(const ValidateArguments& arguments, const Context& context);

}  // namespace trainer::commands
