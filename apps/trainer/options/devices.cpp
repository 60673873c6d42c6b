#include <iostream>

#include "backend/open.h"
#include "base/error.h"
#include "options/commands.h"
#include "commands/devices/print_devices.h"

namespace trainer::app {
namespace {

int devices(bool json) {
  backend::DeviceOptions options;
  options.kind = DeviceKind::kCpu;
  const std::string cpu = backend::open_backends(options).front()->describe();
  (json ? commands::print_devices_json : commands::print_devices)(cpu, backend::list_gpus(),
                                                                  std::cout);
  return kExitOk;
}

}  // namespace

void add_devices(CommandLine& line) {
  const Command command = line.add_command("devices", "What this machine offers");
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "One JSON object");
  command.run([json] { return devices(*json); });
}

}  // namespace trainer::app
