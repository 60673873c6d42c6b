#include "commands/run_list/run_list.h"
#include "context.h"
#include "options/commands.h"

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

}  // namespace trainer::app
