// The command `profile`.
#pragma once

#include <cstdint>
#include <string>

#include "commands/load_config/load_config.h"

namespace trainer::commands {

struct ProfileArguments : ConfigArguments {
  std::int64_t steps = 10;
  double seconds = 4;  // for the input
  std::string trace = "trace.json";
  bool overwrite = false;  // a trace that exists
};
int execute(const ProfileArguments& arguments, const Context& context);

}  // namespace trainer::commands
