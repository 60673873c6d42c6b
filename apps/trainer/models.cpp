#include "commands/models/models.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/error.h"
#include "commands.h"

namespace trainer::app {

void add_models(CLI::App& app, int& code) {
  CLI::App* command =
      app.add_subcommand("models", "The backbones, with parameters, FLOP and weights");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "One JSON object");
  command->callback([json, &code] {
    (*json ? commands::print_backbones_json : commands::print_backbones)(std::cout);
    code = kExitOk;
  });
}

}  // namespace trainer::app
