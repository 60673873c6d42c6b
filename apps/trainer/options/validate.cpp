#include <iostream>

#include "base/error.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "options/commands.h"
#include "commands/open_model/source.h"
#include "commands/validate/validation_json.h"
#include "model/files/import.h"
#include "options/options.h"
#include "train/open.h"
#include "train/run_dir.h"
#include "train/warnings.h"

namespace trainer::app {
namespace {

struct ValidateArguments {
  std::vector<std::string> configs;
  std::vector<config::Override> overrides;
  bool json = false;
};

// Throws ConfigError for images and runs, which other commands check.
void reject_images_and_runs(const std::string& path) {
  reject_installed_elsewhere(path);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  const std::string word = printable(shell_word(path));
  switch (commands::find_source_kind(path)) {
    case commands::SourceKind::kConfig:
      return;
    case commands::SourceKind::kRun:
      throw ConfigError({path, 0, 0},
                        concat("is a run; its config is checked by: trainer validate ",
                               printable(shell_word(train::config_file(path).string()))));
    case commands::SourceKind::kImageFolder:
      throw ConfigError({path, 0, 0}, concat("holds images, which `trainer data ", word,
                                             "` checks; this command takes configs"));
    case commands::SourceKind::kImageList:
      throw ConfigError({path, 0, 0}, concat("is a list of images, which `trainer data ", word,
                                             "` checks; this command takes configs"));
  }
}

int validate(const ValidateArguments& arguments) {
  int code = kExitOk;
  for (const std::string& path : arguments.configs) {
    try {
      reject_images_and_runs(path);
      const config::Config config =
          config::load_config(path, arguments.overrides, environment()).config;
      const train::ModelCheck checked = train::check_model(config);
      for (const std::string& line :
           train::config_warnings(config, train::expected_sample(config), std::nullopt)) {
        warn(line);
      }
      warn(model::missing_weights(config.model, environment()));
      const std::vector<commands::Unchecked> unchecked = commands::list_unchecked(config, checked);
      if (arguments.json) {
        commands::print_validated_json(path, unchecked, std::cout);
      } else {
        std::cout << path << ": ok; " << commands::to_text(unchecked) << '\n';
      }
    } catch (const Error& error) {
      if (arguments.json) {
        commands::print_validated_json(path, error, std::cout);
      } else {
        std::cerr << error.what() << '\n';
      }
      code = error.code();
    }
  }
  return code;
}

}  // namespace

void add_validate(CommandLine& line) {
  const auto arguments = std::make_shared<ValidateArguments>();
  const Command command = line.add_command("validate", "All errors of configs at once");
  command.add_option("configs", arguments->configs, "Config files").required();
  add_overrides(command, arguments->overrides);
  command.add_flag("--json", arguments->json, "One JSON object per config on standard output");
  command.run([arguments] { return validate(*arguments); });
}

}  // namespace trainer::app
