// compare and diff: runs side by side.
#include "commands/compare/compare.h"

#include <iostream>

#include "base/error.h"
#include "options/commands.h"
#include "commands/compare/diff.h"
#include "commands/open_model/source.h"

namespace trainer::app {
namespace {

struct CompareArguments {
  std::vector<std::string> runs;
  std::optional<double> to_accuracy;
  double seconds = 60;  // to predict the images of a run
  bool last = false;
  bool json = false;
};

std::vector<commands::RunFiles> read_runs(const CompareArguments& arguments) {
  std::vector<commands::RunFiles> runs;
  for (const std::string& folder : arguments.runs) {
    commands::check_is_run(folder);
    runs.push_back(commands::read_run(folder));
  }
  return runs;
}

int compare(const CompareArguments& arguments) {
  const std::vector<commands::RunFiles> runs = read_runs(arguments);
  const auto checkpoint =
      arguments.last ? commands::ScoredCheckpoint::kLast : commands::ScoredCheckpoint::kBest;
  const commands::Comparison comparison =
      commands::compare(runs, checkpoint, arguments.to_accuracy, [&](const Path& run) {
        return commands::predict_run(run, checkpoint, arguments.seconds, environment(), warn);
      });
  (arguments.json ? commands::print_comparison_json : commands::print_comparison)(comparison,
                                                                                  std::cout);
  return kExitOk;
}

int diff(const CompareArguments& arguments) {
  const std::vector<commands::RunFiles> runs = read_runs(arguments);
  const commands::RunDiff found = commands::diff(runs[0], runs[1]);
  (arguments.json ? commands::print_diff_json : commands::print_diff)(found, std::cout);
  return found.step ? kExitCheck : kExitOk;
}

}  // namespace

void add_compare(CommandLine& line) {
  const auto arguments = std::make_shared<CompareArguments>();
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
  command.run([arguments] { return compare(*arguments); });
}

void add_diff(CommandLine& line) {
  const auto arguments = std::make_shared<CompareArguments>();
  const Command command = line.add_command(
      "diff", "The first step at which two runs part, and what differs; exit code 5 when they do");
  command.add_option("runs", arguments->runs, "Two run folders").required().expected(2, 2);
  command.add_flag("--json", arguments->json, "One JSON object on standard output");
  command.run([arguments] { return diff(*arguments); });
}

}  // namespace trainer::app
