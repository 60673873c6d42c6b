// Commands that train several runs.
#include "base/error.h"
#include "commands/crossval/crossval.h"
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

void add_crossval(CommandLine& line) {
  const auto arguments = std::make_shared<commands::CrossvalArguments>();
  const Command command = line.add_command(
      "crossval", "Train a run per fold and predict each sample by a run that has not seen it");
  command.add_option("config", arguments->path, kConfigHelp).required();
  command
      .add_option("--folds K", arguments->folds,
                  concat("Parts of the training samples; data.folds, or ", commands::kDefaultFolds,
                         ", when left out"))
      .at_least_one();
  command.add_option("--dir", arguments->folder,
                     "Folder of the runs and results; runs/<name>_crossval when left out");
  command.add_flag("--collect", arguments->collect,
                   "The results of what has been trained, no more");
  command.add_flag(
      "--best", arguments->best,
      "Predict by the best checkpoint of each run, which its fold has chosen, in place "
      "of the last: the metrics are then too good");
  command.add_option("--operating-point CRITERION", arguments->decisions.operating_point,
                     "Also the threshold of the positive class, found for each fold on the "
                     "predictions for the other folds: sensitivity=0.95, specificity=0.9 or "
                     "cost=FP:FN; or cost=FILE.csv, as for evaluate");
  command.add_option("--positive-class CLASS", arguments->decisions.positive_class,
                     "The class of the curves and of --operating-point; of two classes the second "
                     "when left out");
  add_settings(command, *arguments);
  command.remove_option("--run-dir");  // each fold has a folder of its own in --dir
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
