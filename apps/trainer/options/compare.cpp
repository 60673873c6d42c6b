#include "commands/compare/compare.h"

#include "context.h"
#include "options/commands.h"

namespace trainer::app {

void add_compare(CommandLine& line) {
  const auto arguments = std::make_shared<commands::CompareArguments>();
  const Command command = line.add_command(
      "compare", "Configs, curves, results and costs of runs, and whether one is better");
  command.add_option("runs", arguments->runs, "Run folders, at least two")
      .required()
      .expected(2, 100);
  command
      .add_option("--to-accuracy", arguments->to_accuracy,
                  "Also time and cost to this accuracy (0 to 1)")
      .in_range(0.0, 1.0);
  command
      .add_option("--seconds", arguments->seconds,
                  "Predict the images of each run for McNemar's test so long; default 60")
      .not_negative();
  command.add_flag("--last", arguments->last,
                   "The results of the last checkpoints, also if runs have kept best ones; "
                   "predicts anew for McNemar's test");
  command.add_flag("--json", arguments->json, "One JSON object on standard output");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

void add_diff(CommandLine& line) {
  const auto arguments = std::make_shared<commands::DiffArguments>();
  const Command command = line.add_command(
      "diff", "The first step at which two runs part, and what differs; exit code 5 when they do");
  command.add_option("runs", arguments->runs, "Two run folders").required().expected(2, 2);
  command.add_flag("--json", arguments->json, "One JSON object on standard output");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
