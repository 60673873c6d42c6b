#include "commands/launch/launch.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "options/commands.h"
#include "options/options.h"

namespace trainer::app {
namespace {

struct LaunchArguments {
  int workers = 0, servers = 0, restarts = 0;
  bool evaluator = false;
  std::vector<std::string> command;  // of this program, e.g. train CONFIG
};

// Any other command would run as copies without connections between them.
void check_is_joint(const std::string& command) {
  if (command == "train" || command == "plan") return;
  throw ConfigError(
      {}, concat("launch: '", command,
                 "' is not a command that several processes run together, which train is (and "
                 "plan, which shows each its place); run it by itself, with --replicas for several "
                 "copies of the model"));
}

// The command, so that it goes on with the run that it has begun.
std::vector<std::string> resuming(std::vector<std::string> command) {
  std::erase(command, "--overwrite");
  if (std::ranges::find(command, "--resume") == command.end()) {
    command.emplace_back("--resume");
  }
  return command;
}

int launch(const LaunchArguments& arguments) {
  check_is_joint(arguments.command.front());
  commands::LaunchOptions options;
  options.workers = arguments.workers;
  options.servers = arguments.servers;
  options.evaluator = arguments.evaluator;
  // When a server has died, the chief saves what it has.
  if (options.servers > 0) options.after_term = std::chrono::minutes(1);
  options.command = {std::filesystem::read_symlink("/proc/self/exe")};
  options.command.insert(options.command.end(), arguments.command.begin(), arguments.command.end());
  options.restarts = arguments.restarts;
  options.restart_command = resuming(options.command);
  return commands::launch(options);
}

}  // namespace

void add_launch(CommandLine& line) {
  const auto arguments = std::make_shared<LaunchArguments>();
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
  command.run([arguments] { return launch(*arguments); });
}

}  // namespace trainer::app
