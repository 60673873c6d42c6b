// Commands that show runs.
#include "commands/compare/compare.h"
#include "commands/report/command.h"
#include "commands/run_list/run_list.h"
#include "commands/watch/command.h"
#include "options/options.h"

namespace trainer::app {

namespace {

constexpr const char* kClean = "clean";

struct RunsOptions {
  std::vector<std::string> words;  // folders, after `clean` where checkpoints are removed
  bool dry_run = false, json = false;
};

commands::RunsArguments to_arguments(const RunsOptions& options) {
  const bool cleans = !options.words.empty() && options.words.front() == kClean;
  if (options.dry_run && !cleans) reject_missing("--dry-run", kClean);
  return {{options.words.begin() + (cleans ? 1 : 0), options.words.end()},
          cleans,
          options.dry_run,
          options.json};
}

}  // namespace

void add_runs(CommandLine& line) {
  const auto arguments = std::make_shared<RunsOptions>();
  const Command command = line.add_command(
      "runs", "The runs in a folder with their states and best values; clean removes checkpoints");
  command.add_option("folder", arguments->words,
                     "Folders of runs, runs when left out; after `clean`: remove their checkpoints "
                     "but the newest and the best of each run");
  command.add_flag("--dry-run", arguments->dry_run, "clean: only list what would be removed");
  command.add_flag("--json", arguments->json, "JSON objects, one per line");
  command.run([arguments] { return commands::execute(to_arguments(*arguments), make_context()); });
}

void add_watch(CommandLine& line) {
  const auto arguments = std::make_shared<commands::WatchArguments>();
  const Command command = line.add_command(
      "watch", "Runs while they train, also on other machines that write into a shared folder");
  command.add_option("runs", arguments->runs, "Run folders, which may not exist yet").required();
  command
      .add_option("--every SECONDS", arguments->seconds,
                  "Read the files of the runs so often; default 2")
      .positive();
  const Option html = command.add_option(
      "--html FILE", arguments->html,
      "Also write the report of the runs as a page, anew after each change; a browser loads it "
      "again by itself");
  command.add_flag("--overwrite", arguments->overwrite, "Replace the file of --html").needs(html);
  command.add_flag("--json", arguments->json, "A JSON object per change, one per line");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

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
