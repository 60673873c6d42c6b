#include "commands/crossval/crossval.h"

#include "base/error.h"
#include "commands/crossval/command.h"
#include "options/options.h"

namespace trainer::app {

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
