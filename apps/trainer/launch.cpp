#include "cluster/launch.h"

#include <filesystem>

#include "base/error.h"
#include "commands.h"

namespace trainer::app {
namespace {

// Of any other command there would be copies that know nothing of each other.
void check_is_joint(const std::string& command) {
  if (command == "train" || command == "plan") return;
  throw ConfigError(
      {}, concat("launch: '", command,
                 "' is not a command that several processes run together, which train is (and "
                 "plan, which shows each its place); run it by itself, with --replicas for several "
                 "copies of the model"));
}

}  // namespace

int launch(const LaunchArguments& arguments) {
  check_is_joint(arguments.command.front());
  cluster::LaunchOptions options;
  options.workers = arguments.workers;
  options.servers = arguments.servers;
  options.evaluator = arguments.evaluator;
  // When a server has died, the chief saves what it has.
  if (options.servers > 0) options.after_term = std::chrono::minutes(1);
  options.command = {std::filesystem::read_symlink("/proc/self/exe")};
  options.command.insert(options.command.end(), arguments.command.begin(), arguments.command.end());
  return cluster::launch(options);
}

}  // namespace trainer::app
