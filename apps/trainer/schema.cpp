#include <CLI/CLI.hpp>
#include <iostream>

#include "base/error.h"
#include "commands.h"

namespace trainer::app {

void add_schema(CLI::App& app, int& code) {
  app.add_subcommand("schema", "JSON Schema of a config")->callback([&code] {
    std::cout << config::json_schema() << '\n';
    code = kExitOk;
  });
}

}  // namespace trainer::app
