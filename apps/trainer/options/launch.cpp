#include "commands/launch/launch.h"

#include "options/commands.h"

namespace trainer::app {

void add_launch(CommandLine& line) {
  const auto arguments = std::make_shared<commands::LaunchArguments>();
  const Command command = line.add_command(
      "launch", "Start ranks of a job on this machine: trainer launch -n 2 -- train CONFIG");
  command.add_option("-n,--workers", arguments->workers, "Number of ranks")
      .required()
      .in_range(1, 1024);
  command
      .add_option("--ps", arguments->servers,
                  "Parameter servers besides, for parallel.strategy: parameter_server")
      .in_range(1, 1024);
  command.add_flag("--evaluator", arguments->evaluator,
                   "And a task that evaluates each new checkpoint");
  command
      .add_option("--restarts", arguments->restarts,
                  "When a process crashes, is killed or is lost, start the job again from its "
                  "last checkpoint, at most so many times, after a wait that grows from 1 s")
      .in_range(0, 1000);
  command.add_option("command", arguments->command, "What each runs, behind --: train CONFIG ...")
      .required();
  command.run([arguments] { return commands::execute(*arguments); });
}

}  // namespace trainer::app
