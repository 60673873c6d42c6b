#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/run_links.h"
#include "commands.h"
#include "commands/report/html.h"
#include "commands/sweep/summary.h"
#include "options.h"

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

// Returns whether all parts of the report were made.
bool report_run(const ReportArguments& arguments, const Path& folder, const Path& output) {
  const commands::RunFiles run = commands::read_run(folder);
  commands::Mistakes mistakes;
  if (arguments.mistakes == 0) {
    mistakes.reason = "--mistakes 0";
  } else {
    mistakes = commands::find_mistakes(
        folder,
        {static_cast<std::size_t>(arguments.mistakes), arguments.seconds,
         arguments.last ? commands::CheckpointChoice::kLast : commands::CheckpointChoice::kDefault,
         arguments.overrides, environment(), warn});
  }
  commands::write_run_report(run, mistakes, output);
  if (!arguments.plots.empty() || arguments.output.empty()) {
    commands::write_run_plots(run,
                              arguments.plots.empty() ? folder / "plots" : Path(arguments.plots));
  }
  if (mistakes.failed) {
    warn(concat("the report has no mistakes and no pictures: ", mistakes.reason,
                "; --mistakes 0 leaves them out"));
  }
  return !mistakes.failed;
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
  if (std::filesystem::exists(folder / "sweep.json")) {
    const commands::SweepPlan plan = commands::read_plan(folder);
    commands::write_sweep_report(
        commands::summarize(plan, commands::collect(plan), arguments.to_accuracy), folder, output);
  } else {
    is_whole = report_run(arguments, folder, output);
  }
  std::cout << printable(output.string()) << '\n';
  return is_whole ? kExitOk : kExitData;
}

}  // namespace

void add_report(CommandLine& line) {
  const auto arguments = std::make_shared<ReportArguments>();
  const Command command =
      line.add_command("report", "A run or a sweep as one HTML file that needs no network");
  command.add_option("folder", arguments->folder, "Folder of a run or of a sweep").required();
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
          "many right answers; found with its best checkpoint, else its last; default 24")
      .type_name("N")
      .not_negative();
  command.add_option("--seconds", arguments->seconds, "Look for mistakes so long; default 60")
      .not_negative();
  add_last(command, arguments->last);
  add_overrides(command, arguments->overrides, Shorthands::kDevice);
  command.run([arguments] { return report(*arguments); });
}

}  // namespace trainer::app
