#include "commands/run_list/run_list.h"
#include "context.h"
#include "options/commands.h"

namespace trainer::app {
namespace {

constexpr const char* kClean = "clean";

struct RunsWords {
  std::vector<std::string> words;  // folders, after `clean` where checkpoints are removed
  bool dry_run = false, json = false;
};

commands::RunsArguments to_arguments(const RunsWords& line) {
  const bool cleans = !line.words.empty() && line.words.front() == kClean;
  if (line.dry_run && !cleans) reject_missing("--dry-run", kClean);
  return {
      {line.words.begin() + (cleans ? 1 : 0), line.words.end()}, cleans, line.dry_run, line.json};
}

}  // namespace

void add_runs(CommandLine& line) {
  const auto arguments = std::make_shared<RunsWords>();
  const Command command = line.add_command(
      "runs", "The runs in a folder with their states and best values; clean removes checkpoints");
  command.add_option("folder", arguments->words,
                     "Folders of runs, runs when left out; after `clean`: remove their checkpoints "
                     "but the newest and the best of each run");
  command.add_flag("--dry-run", arguments->dry_run, "clean: only list what would be removed");
  command.add_flag("--json", arguments->json, "JSON objects, one per line");
  command.run([arguments] { return commands::execute(to_arguments(*arguments), context()); });
}

}  // namespace trainer::app
