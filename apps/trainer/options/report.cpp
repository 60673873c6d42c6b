#include "commands/report/command.h"
#include "options/options.h"

namespace trainer::app {

void add_report(CommandLine& line) {
  const auto arguments = std::make_shared<commands::ReportArguments>();
  const Command command = line.add_command(
      "report", "A run, a sweep or a cross-validation as one HTML file without network");
  command.add_option("folder", arguments->folder, "Folder of a run, of a sweep or of crossval")
      .required();
  command.add_option("--output", arguments->output,
                     "The file; report.html in the folder when left out, which is replaced");
  command.add_flag("--overwrite", arguments->overwrite, "Replace the file of --output");
  command
      .add_option("--to-accuracy", arguments->to_accuracy,
                  "Of a sweep: also time and cost to this accuracy (0 to 1)")
      .in_range(0.0, 1.0);
  command.add_option("--plots FOLDER", arguments->plots,
                     "Of a run: folder of the plots as SVG; plots in the run's folder when neither "
                     "this nor --output is given");
  command
      .add_option(
          "--mistakes N", arguments->mistakes,
          "Of a run: show so many of its mistakes, by true and predicted class, and half as "
          "many right answers; found with its best checkpoint, else its last; default 24. Of "
          "crossval: of the folds together, found with the checkpoints of its predictions")
      .not_negative();
  command.add_option("--seconds", arguments->seconds, "Look for mistakes so long; default 60")
      .not_negative();
  add_last(command, arguments->last);
  command.add_flag("--json", arguments->json, "One JSON object on standard output");
  add_overrides(command, arguments->overrides, Shorthands::kDevice);
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
