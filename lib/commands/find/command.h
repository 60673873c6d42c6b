// The command `find`.
#pragma once

#include <string>

#include "commands/find/find.h"
#include "commands/load_config/load_config.h"

namespace trainer::commands {

struct FindArguments : ConfigArguments {
  std::string what;  // learning-rate or batch-size
  std::string plot;
  bool overwrite = false;
  RangeTestOptions rates;
  BatchSizeOptions sizes;
};
int execute(const FindArguments& arguments, const Context& context);

}  // namespace trainer::commands
