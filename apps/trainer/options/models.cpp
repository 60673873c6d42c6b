#include "commands/models/models.h"

#include <iostream>

#include "base/error.h"
#include "options/commands.h"

namespace trainer::app {

void add_models(CommandLine& line) {
  const Command command =
      line.add_command("models", "The backbones, with parameters, FLOP and weights");
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "One JSON object");
  command.run([json] {
    (*json ? commands::print_backbones_json : commands::print_backbones)(std::cout);
    return kExitOk;
  });
}

}  // namespace trainer::app
