#include "commands/validate/command.h"

#include <filesystem>

#include "base/error.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "commands/validate/validation.h"
#include "inference/open_model/source.h"
#include "model/files/import.h"
#include "results/write_json.h"
#include "train/open.h"
#include "train/run_dir.h"
#include "train/warnings.h"

namespace trainer::commands {
namespace {

// Throws ConfigError for images and runs, which other commands check.
void reject_images_and_runs(const std::string& path) {
  inference::reject_installed_elsewhere(path);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  const std::string word = printable(shell_word(path));
  switch (inference::find_source_kind(path)) {
    case inference::SourceKind::kConfig:
      return;
    case inference::SourceKind::kRun:
      throw ConfigError({path, 0, 0},
                        concat("is a run; its config is checked by: trainer validate ",
                               printable(shell_word(train::config_file(path).string()))));
    case inference::SourceKind::kImageFolder:
      throw ConfigError({path, 0, 0}, concat("holds images, which `trainer data ", word,
                                             "` checks; this command takes configs"));
    case inference::SourceKind::kImageList:
      throw ConfigError({path, 0, 0}, concat("is a list of images, which `trainer data ", word,
                                             "` checks; this command takes configs"));
  }
}

}  // namespace

int execute(const ValidateArguments& arguments, const Context& context) {
  int code = kExitOk;
  for (const std::string& path : arguments.configs) {
    try {
      reject_images_and_runs(path);
      const config::Config config =
          config::load_config(path, arguments.overrides, context.environment).config;
      const train::ModelCheck checked = train::check_model(config);
      for (const std::string& line :
           train::config_warnings(config, train::expected_sample(config), std::nullopt)) {
        context.warn(line);
      }
      context.warn(model::missing_weights(config.model, context.environment));
      const std::vector<Unchecked> unchecked = list_unchecked(config, checked);
      if (arguments.json) {
        results::print_json(Validation{path, true, {}, unchecked}, context.out);
      } else {
        context.out << path << ": ok; " << to_text(unchecked) << '\n';
      }
    } catch (const Error& error) {
      if (arguments.json) {
        results::print_json(Validation{path, false, list_errors(error)}, context.out);
      } else {
        context.errors << error.what() << '\n';
      }
      code = error.code();
    }
  }
  return code;
}

}  // namespace trainer::commands
