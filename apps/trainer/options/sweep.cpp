#include "base/error.h"
#include "commands/sweep/command.h"
#include "options/options.h"

namespace trainer::app {

void add_sweep(CommandLine& line) {
  const auto arguments = std::make_shared<commands::SweepArguments>();
  const Command command = line.add_command(
      "sweep", "Train every combination of some values: a run each, and one table");
  command.add_option("config", arguments->path, kConfigHelp).required();
  command
      .add_option("--over KEY=V1,V2", arguments->over,
                  "A key and its values; also lists in NUM_GPUS, BATCH_SIZE, LEARNING_RATE, SEEDS")
      .one_value_each();
  command.add_option("--dir", arguments->folder,
                     "Folder of the sweep; runs/<name>_sweep when left out");
  command
      .add_option("--launcher", arguments->launcher,
                  "local trains here; slurm and kubernetes print a job array or Job manifests")
      .choices({"local", "slurm", "kubernetes"});
  command
      .add_option("--max-points N", arguments->max_points,
                  concat("How many points the sweep may have; default ", results::kMaxPoints))
      .at_least_one();
  command.add_option("--image", arguments->image, "Container image of --launcher kubernetes");
  command.add_flag("--collect", arguments->collect, "The table of what has been trained, no more");
  command
      .add_option("--to-accuracy", arguments->to_accuracy,
                  "Also time and cost to this accuracy (0 to 1), and the cheapest point")
      .in_range(0.0, 1.0);
  command.add_flag("--last", arguments->last,
                   "Accuracy and loss of the last checkpoints, also if runs have kept best ones");
  add_settings(command, *arguments);
  command.remove_option("--run-dir");  // each point has a folder of its own in --dir
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
