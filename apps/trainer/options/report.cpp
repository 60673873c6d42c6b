#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/run_links.h"
#include "options/commands.h"
#include "commands/crossval/crossval.h"
#include "commands/open_model/source.h"
#include "commands/report/html.h"
#include "commands/sweep/summary.h"
#include "options/options.h"

namespace trainer::app {
namespace {

struct ReportArguments {
  std::string folder;
  std::string output;  // <folder>/report.html when empty
  bool overwrite = false;
  std::optional<double> to_accuracy;
  std::string plots;  // folder; plots in that of the run when empty and the output is there
  std::int64_t mistakes = 24;
  double seconds = 60;  // to look for mistakes
  bool last = false;    // look with the last checkpoint
  std::vector<config::Override> overrides;
};

commands::MistakeOptions mistake_options(const ReportArguments& arguments) {
  return {static_cast<std::size_t>(arguments.mistakes),
          arguments.seconds,
          arguments.last ? commands::CheckpointChoice::kLast : commands::CheckpointChoice::kDefault,
          arguments.overrides,
          environment(),
          warn};
}

// Warns of mistakes that could not be looked for. Returns whether they could.
bool check_mistakes(const commands::Mistakes& mistakes) {
  if (mistakes.failed) {
    warn(concat("the report has no mistakes and no pictures: ", mistakes.reason,
                "; --mistakes 0 leaves them out"));
  }
  return !mistakes.failed;
}

// Warns of points whose files could not be read. Returns whether there are none.
bool check_points(const commands::Summary& summary) {
  for (const commands::PointState& point : summary.points) {
    if (point.kind != commands::PointState::Kind::kDamaged) continue;
    warn(concat("the report has no results of ", point.point.name, ": ", point.message));
  }
  return !commands::has_damaged(summary.points);
}

// Returns whether all parts of the report were made.
bool report_run(const ReportArguments& arguments, const Path& folder, const Path& output) {
  commands::check_is_run(folder);
  const commands::RunFiles run = commands::read_run(folder);
  commands::Mistakes mistakes;
  if (arguments.mistakes == 0) {
    mistakes.reason = "--mistakes 0";
  } else {
    mistakes = commands::find_mistakes(folder, mistake_options(arguments));
  }
  commands::write_run_report(run, mistakes, output);
  if (!arguments.plots.empty() || arguments.output.empty()) {
    commands::write_run_plots(run,
                              arguments.plots.empty() ? folder / "plots" : Path(arguments.plots));
  }
  return check_mistakes(mistakes);
}

// The mistakes of each fold are found on the fold, with the checkpoint that predicted it. Returns
// whether all parts of the report were made.
bool report_crossval(const ReportArguments& arguments, const Path& folder, const Path& output) {
  if (arguments.last) {
    throw ConfigError({},
                      "--last needs a run or a sweep; a cross-validation has the predictions of "
                      "one kind of checkpoint");
  }
  const commands::SweepPlan plan = commands::read_plan(folder);
  const std::size_t count = plan.points.size();
  commands::MistakeOptions options = mistake_options(arguments);
  options.checkpoint = commands::read_crossval_checkpoint(folder);
  options.split = Split::kValidation;
  options.most = (options.most + count - 1) / count;
  options.seconds /= static_cast<double>(count);
  std::vector<commands::Mistakes> folds;
  bool is_whole = true;
  for (std::size_t fold = 0; fold < count && arguments.mistakes > 0; ++fold) {
    folds.push_back(commands::find_mistakes(folder / plan.points[fold].name, options));
    folds.back().split = concat("fold ", fold + 1);
    is_whole = check_mistakes(folds.back()) && is_whole;
  }
  const auto scored = options.checkpoint == commands::CheckpointChoice::kBest
                          ? commands::ScoredCheckpoint::kBest
                          : commands::ScoredCheckpoint::kLast;
  const commands::Summary summary =
      commands::summarize(plan, commands::collect(plan), arguments.to_accuracy, scored);
  commands::write_crossval_report(summary, folds, folder, output);
  return is_whole && check_points(summary);
}

// Returns whether all parts of the report were made.
bool report_sweep(const ReportArguments& arguments, const Path& folder, const Path& output) {
  const commands::SweepPlan plan = commands::read_plan(folder);
  const commands::Summary summary = commands::summarize(
      plan, commands::collect(plan), arguments.to_accuracy,
      arguments.last ? commands::ScoredCheckpoint::kLast : commands::ScoredCheckpoint::kBest);
  commands::write_sweep_report(summary, folder, output);
  return check_points(summary);
}

int report(const ReportArguments& arguments) {
  const Path folder = arguments.folder;
  Path output = arguments.output;
  if (output.empty()) {
    checkpoint::check_no_links(folder);
    output = folder / "report.html";
  } else {
    check_output_path("--output", output, arguments.overwrite);
  }
  bool is_whole = true;
  if (std::filesystem::exists(folder / commands::kCrossvalFile)) {
    is_whole = report_crossval(arguments, folder, output);
  } else if (std::filesystem::exists(folder / "sweep.json")) {
    is_whole = report_sweep(arguments, folder, output);
  } else {
    is_whole = report_run(arguments, folder, output);
  }
  std::cout << printable(output.string()) << '\n';
  return is_whole ? kExitOk : kExitData;
}

}  // namespace

void add_report(CommandLine& line) {
  const auto arguments = std::make_shared<ReportArguments>();
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
  command
      .add_option("--plots", arguments->plots,
                  "Of a run: folder of the plots as SVG; plots in the run's folder when neither "
                  "this nor --output is given")
      .type_name("FOLDER");
  command
      .add_option(
          "--mistakes", arguments->mistakes,
          "Of a run: show so many of its mistakes, by true and predicted class, and half as "
          "many right answers; found with its best checkpoint, else its last; default 24. Of "
          "crossval: of the folds together, found with the checkpoints of its predictions")
      .type_name("N")
      .not_negative();
  command.add_option("--seconds", arguments->seconds, "Look for mistakes so long; default 60")
      .not_negative();
  add_last(command, arguments->last);
  add_overrides(command, arguments->overrides, Shorthands::kDevice);
  command.run([arguments] { return report(*arguments); });
}

}  // namespace trainer::app
