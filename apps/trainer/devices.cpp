#include <CLI/CLI.hpp>
#include <iostream>

#include "backend/open.h"
#include "base/error.h"
#include "commands.h"
#include "report/events.h"

namespace trainer::app {
namespace {

int devices(bool json) {
  const auto backend = std::move(backend::open_backends({}).front());
  if (json) {
    report::print_devices_json(backend->describe(), std::cout);
  } else {
    std::cout << backend->describe() << "\nno GPU backend in this build\n";
  }
  return kExitOk;
}

}  // namespace

void add_devices(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("devices", "What this machine offers");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "One JSON object");
  command->callback([json, &code] { code = devices(*json); });
}

}  // namespace trainer::app
