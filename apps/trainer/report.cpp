#include <CLI/CLI.hpp>
#include <iostream>

#include "base/error.h"
#include "commands.h"
#include "experiment/sweep/summary.h"
#include "report/html.h"

namespace trainer::app {
namespace {

struct ReportArguments {
  std::string folder;
  std::string output;  // <folder>/report.html when empty
  bool overwrite = false;
  std::optional<double> to_accuracy;
};

int report(const ReportArguments& arguments) {
  const Path folder = arguments.folder;
  Path output = arguments.output;
  if (output.empty()) {
    output = folder / "report.html";
  } else {
    check_output_path("--output", output, arguments.overwrite);
  }
  if (std::filesystem::exists(folder / "sweep.json")) {
    const experiment::SweepPlan plan = experiment::read_plan(folder);
    report::write_sweep_report(
        experiment::summarize(plan, experiment::collect(plan), arguments.to_accuracy), folder,
        output);
  } else {
    report::write_run_report(experiment::read_run(folder), output);
  }
  std::cout << output.string() << '\n';
  return kExitOk;
}

}  // namespace

void add_report(CLI::App& app, int& code) {
  const auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command =
      app.add_subcommand("report", "A run or a sweep as one HTML file that needs no network");
  command->add_option("folder", arguments->folder, "Folder of a run or of a sweep")->required();
  command->add_option("--output", arguments->output,
                      "The file; report.html in the folder when left out, which is replaced");
  command->add_flag("--overwrite", arguments->overwrite, "Replace the file of --output");
  command
      ->add_option("--to-accuracy", arguments->to_accuracy,
                   "Of a sweep: also time and cost to this accuracy (0 to 1)")
      ->check(CLI::Range(0.0, 1.0));
  command->callback([arguments, &code] { code = report(*arguments); });
}

}  // namespace trainer::app
