#include "commands/profile/command.h"
#include "options/options.h"

namespace trainer::app {

void add_profile(CommandLine& line) {
  const auto arguments = std::make_shared<commands::ProfileArguments>();
  const Command command =
      line.add_command("profile", "Where the time of a step goes, by layer, and of the input");
  add_config(command, *arguments);
  command.add_option("--steps", arguments->steps, "Steps to record, after a warm-up")
      .at_least_one();
  command.add_option("--trace", arguments->trace, "File for Perfetto or chrome://tracing");
  command.add_flag("--overwrite", arguments->overwrite, "Replace a trace that exists");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
