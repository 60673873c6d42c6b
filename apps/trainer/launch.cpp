#include "cluster/launch.h"

#include <filesystem>

#include "commands.h"
#include "options.h"

namespace trainer::app {
namespace {

struct LaunchArguments {
  int workers = 0, servers = 0;
  bool evaluator = false;
  std::vector<std::string> command;  // of this program, e.g. train CONFIG
};

int launch(const LaunchArguments& arguments) {
  cluster::LaunchOptions options;
  options.workers = arguments.workers;
  options.servers = arguments.servers;
  options.evaluator = arguments.evaluator;
  options.command = {std::filesystem::read_symlink("/proc/self/exe")};
  options.command.insert(options.command.end(), arguments.command.begin(), arguments.command.end());
  return cluster::launch(options);
}

}  // namespace

void add_launch(CLI::App& app, int& code) {
  const auto arguments = std::make_shared<LaunchArguments>();
  CLI::App* command = app.add_subcommand(
      "launch", "Start ranks of a job on this machine: trainer launch -n 2 -- train CONFIG");
  command->add_option("-n,--workers", arguments->workers, "Number of ranks")
      ->required()
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--ps", arguments->servers,
                   "Parameter servers besides, for parallel.strategy: parameter_server")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--evaluator", arguments->evaluator,
                    "And a task that evaluates each new checkpoint");
  command->add_option("command", arguments->command, "What each runs, behind --: train CONFIG ...")
      ->required();
  command->callback([arguments, &code] { code = launch(*arguments); });
}

}  // namespace trainer::app
