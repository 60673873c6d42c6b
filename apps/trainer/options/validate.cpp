#include "commands/validate/command.h"
#include "options/options.h"

namespace trainer::app {

void add_validate(CommandLine& line) {
  const auto arguments = std::make_shared<commands::ValidateArguments>();
  const Command command = line.add_command("validate", "All errors of configs at once");
  command.add_option("configs", arguments->configs, "Config files").required();
  add_overrides(command, arguments->overrides);
  command.add_flag("--json", arguments->json, "One JSON object per config on standard output");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
