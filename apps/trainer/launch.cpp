#include "cluster/launch.h"

#include <filesystem>

#include "commands.h"

namespace trainer::app {

int launch(const LaunchArguments& arguments) {
  cluster::LaunchOptions options;
  options.workers = arguments.workers;
  options.servers = arguments.servers;
  options.evaluator = arguments.evaluator;
  options.command = {std::filesystem::read_symlink("/proc/self/exe")};
  options.command.insert(options.command.end(), arguments.command.begin(), arguments.command.end());
  return cluster::launch(options);
}

}  // namespace trainer::app
  // When a server has died, the chief saves what it has.
  if (options.servers > 0) options.after_term = std::chrono::minutes(1);
