#include "commands/crossval/crossval.h"

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "options/commands.h"
#include "commands/evaluate/decision_options.h"
#include "commands/report/html.h"
#include "commands/sweep/sweep_print.h"
#include "commands/sweep/table.h"
#include "options/options.h"

namespace trainer::app {
namespace {

using commands::PointState;

struct CrossvalArguments : ConfigArguments {
  std::optional<std::int64_t> folds;
  std::string folder;
  bool collect = false;
  bool best = false;
  commands::DecisionOptions decisions;
};

int crossval(const CrossvalArguments& arguments) {
  const commands::SweepPlan plan = commands::plan_crossval(
      find_config(arguments.path, arguments.overrides), arguments.folds, arguments.overrides,
      environment(), arguments.folder, arguments.decisions);
  const Path program = std::filesystem::read_symlink("/proc/self/exe");
  if (arguments.collect) {
    commands::check_runs(plan);
  } else {
    commands::write_plan(plan);
  }
  commands::SweepPrinter printer({arguments.json, arguments.quiet, is_terminal()},
                                 plan.points.size(), std::cout);
  std::vector<PointState> points =
      arguments.collect ? commands::collect(plan) : commands::run_sweep(plan, program, printer);
  const auto missing =
      std::ranges::count_if(points, [](const PointState& point) { return !point.is_done(); });
  const int code = commands::find_exit_code(points);
  const commands::Summary summary = commands::summarize(
      plan, std::move(points), std::nullopt,
      arguments.best ? commands::ScoredCheckpoint::kBest : commands::ScoredCheckpoint::kLast);
  commands::write_tables(summary, plan.folder);
  const Path report = plan.folder / "report.html";
  if (missing > 0) {
    commands::write_sweep_report(summary, plan.folder, report);
    if (!arguments.json) {
      std::cout << '\n';
      commands::print_summary(summary, plan.folder, std::cout);
    }
    warn(concat(
        missing, " of ", plan.points.size(), " folds have no results; ",
        arguments.collect ? "give the same command without --collect to train them"
                          : "give the same command again to go on",
        commands::has_damaged(summary.points) ? ", after you removed the damaged ones" : ""));
    return code;
  }
  const commands::CrossvalResult result = commands::collect_folds(
      plan, arguments.best ? commands::CheckpointChoice::kBest : commands::CheckpointChoice::kLast,
      arguments.decisions, warn);
  commands::write_crossval_report(summary, {}, plan.folder, report);
  if (arguments.json) {
    std::cout << commands::crossval_json(result) << std::endl;
  } else {
    if (!arguments.quiet && !arguments.collect) std::cout << '\n';
    commands::print_crossval(result, plan.folder, arguments.quiet, std::cout);
  }
  return kExitOk;
}

}  // namespace

void add_crossval(CommandLine& line) {
  const auto arguments = std::make_shared<CrossvalArguments>();
  const Command command = line.add_command(
      "crossval", "Train a run per fold and predict each sample by a run that has not seen it");
  command.add_option("config", arguments->path, kConfigHelp).required();
  command
      .add_option("--folds", arguments->folds,
                  concat("Parts of the training samples; data.folds, or ", commands::kDefaultFolds,
                         ", when left out"))
      .type_name("K")
      .at_least_one();
  command.add_option("--dir", arguments->folder,
                     "Folder of the runs and results; runs/<name>_crossval when left out");
  command.add_flag("--collect", arguments->collect,
                   "The results of what has been trained, no more");
  command.add_flag(
      "--best", arguments->best,
      "Predict by the best checkpoint of each run, which its fold has chosen, in place "
      "of the last: the metrics are then too good");
  command
      .add_option("--operating-point", arguments->decisions.operating_point,
                  "Also the threshold of the positive class, found for each fold on the "
                  "predictions for the other folds: sensitivity=0.95, specificity=0.9 or "
                  "cost=FP:FN; or cost=FILE.csv, as for evaluate")
      .type_name("CRITERION");
  command
      .add_option("--positive-class", arguments->decisions.positive_class,
                  "The class of the curves and of --operating-point; of two classes the second "
                  "when left out")
      .type_name("CLASS");
  add_overrides(command, arguments->overrides);
  command.remove_option("--run-dir");  // each fold has a folder of its own in --dir
  command.add_flag("--json", arguments->json,
                   "One JSON object per line on standard output, nothing else");
  command.add_flag("--quiet", arguments->quiet, "No progress");
  command.run([arguments] { return crossval(*arguments); });
}

}  // namespace trainer::app
