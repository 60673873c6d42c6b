#include <iostream>

#include "base/error.h"
#include "base/process/process.h"
#include "commands/devices/print_devices.h"
#include "options/commands.h"

namespace trainer::app {

void add_devices(CommandLine& line) {
  const Command command = line.add_command("devices", "What this machine offers");
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "One JSON object");
  command.run([json] {
    (*json ? commands::print_devices_json : commands::print_devices)(
        backend::read_platform(environment_variables()), std::cout);
    return kExitOk;
  });
}

}  // namespace trainer::app
