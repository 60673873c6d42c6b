#include "commands/verify/verify.h"

#include "options/options.h"

namespace trainer::app {

void add_verify(CommandLine& line) {
  const auto arguments = std::make_shared<commands::VerifyArguments>();
  const Command command = line.add_command(
      "verify", "Prove by training that replicas, or a resumed run, give what they should");
  command.add_option("what", arguments->what, "replicas or resume")
      .required()
      .choices({"replicas", "resume"});
  add_config(command, *arguments);
  // Here a list to compare, not one number for the config.
  command.remove_option("--replicas");
  command
      .add_option("--replicas", arguments->replicas,
                  "Numbers of replicas to compare; default 1,2,4")
      .delimiter(',')
      .at_least_one();
  command.add_option("--steps", arguments->steps, "Length of the runs").in_range(2, 1000000000);
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
