#include <iostream>

#include "base/error.h"
#include "options/commands.h"
#include "commands/run_list/run_list.h"

namespace trainer::app {
namespace {

constexpr const char* kClean = "clean";

struct RunsArguments {
  std::vector<std::string> words;  // folders, after `clean` where checkpoints are removed
  bool dry_run = false, json = false;
};

int runs(RunsArguments arguments) {
  std::vector<std::string>& words = arguments.words;
  const bool cleans = !words.empty() && words.front() == kClean;
  if (cleans) words.erase(words.begin());
  if (arguments.dry_run && !cleans) reject_missing("--dry-run", kClean);
  // A user who has not trained yet has no folder `runs`; one that is named must exist.
  std::vector<Path> folders(words.begin(), words.end());
  if (folders.empty() && std::filesystem::is_directory("runs")) folders.emplace_back("runs");
  const std::vector<commands::RunRow> rows = commands::list_runs(folders);
  if (!cleans) {
    const auto columns = is_terminal() ? std::optional(terminal_columns()) : std::nullopt;
    if (arguments.json) {
      commands::print_runs_json(rows, std::cout);
    } else {
      commands::print_runs(rows, columns, std::cout);
    }
    return kExitOk;
  }
  const auto mode = arguments.dry_run ? commands::CleanMode::kDryRun : commands::CleanMode::kRemove;
  const std::vector<commands::OldCheckpoints> cleaned = commands::clean_runs(rows, mode);
  (arguments.json ? commands::print_cleaned_json : commands::print_cleaned)(cleaned, mode,
                                                                            std::cout);
  return kExitOk;
}

}  // namespace

void add_runs(CommandLine& line) {
  const auto arguments = std::make_shared<RunsArguments>();
  const Command command = line.add_command(
      "runs", "The runs in a folder with their states and best values; clean removes checkpoints");
  command.add_option("folder", arguments->words,
                     "Folders of runs, runs when left out; after `clean`: remove their checkpoints "
                     "but the newest and the best of each run");
  command.add_flag("--dry-run", arguments->dry_run, "clean: only list what would be removed");
  command.add_flag("--json", arguments->json, "JSON objects, one per line");
  command.run([arguments] { return runs(*arguments); });
}

}  // namespace trainer::app
