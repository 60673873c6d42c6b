#include "commands/validate/command.h"

#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "inference/open_model/source.h"
#include "model/files/import.h"
#include "results/write_json.h"
#include "train/open.h"
#include "train/run_dir.h"
#include "train/warnings.h"

namespace trainer::commands {

void fields(results::FieldVisitor& v, ValidationError& error) {
  v.when_present("file", error.file, "The file that has the error.");
  v.when_present("line", error.line, "Its line, from 1.");
  v.when_present("column", error.column, "Its column, from 1.");
  v("message", error.message, "What is wrong.");
}

void fields(results::FieldVisitor& v, Unchecked& unchecked) {
  v("what", unchecked.what, "What is not checked.");
  v("command", unchecked.command, "The command that checks it.");
}

void fields(results::FieldVisitor& v, Validation& validation) {
  v.event("validated");
  v("config", validation.config, "The file of the config.");
  v("ok", validation.ok, "Whether it is valid.");
  v("errors", validation.errors, "What is wrong.");
  v.when_present("not_checked", validation.unchecked, "What may be wrong in a valid config.");
}

namespace {

// Lists what may be wrong in a config that is valid. `checked` is the result of
// train::check_model() for it.
std::vector<Unchecked> list_unchecked(const config::Config& config, train::ModelCheck checked) {
  std::vector<Unchecked> list{{"samples and labels", "data"}};
  if (checked == train::ModelCheck::kNoShape) {
    list.push_back({"shapes of layers, which follow from the data", "plan"});
  } else if (checked == train::ModelCheck::kNoClasses) {
    list.push_back({"number of classes, which follows from the data", "plan"});
  }
  const bool has_weights = !config.model.weights.empty() ||
                           (config.model.backbone && !config.model.backbone->weights.empty());
  const bool are_missing = !model::missing_weights(config.model, {}).empty();
  const bool are_checked =
      checked == train::ModelCheck::kWhole ||
      (checked == train::ModelCheck::kNoClasses && !train::has_weights_of_classes(config.model));
  if (has_weights && (are_missing || !are_checked))
    list.push_back({"shapes in the file of weights", "train"});
  list.push_back({"memory and devices", "plan"});
  return list;
}

// Returns "not checked: samples and labels (trainer data), ...".
std::string to_text(const std::vector<Unchecked>& unchecked) {
  std::vector<std::string> parts;
  for (const Unchecked& one : unchecked) {
    parts.push_back(concat(one.what, " (trainer ", one.command, ")"));
  }
  return "not checked: " + join(parts);
}

// Returns what is wrong in a config.
std::vector<ValidationError> list_errors(const Error& error) {
  const auto* located = dynamic_cast<const ConfigError*>(&error);
  if (located == nullptr) return {{"", {}, {}, error.what()}};
  std::vector<ValidationError> errors;
  for (const Diagnostic& each : located->diagnostics()) {
    ValidationError& one = errors.emplace_back();
    one.file = each.loc.file;
    if (each.loc.line > 0) {
      one.line = each.loc.line;
      one.column = each.loc.column;
    }
    one.message = each.message;
  }
  return errors;
}

// Throws ConfigError for images and runs, which other commands check.
void reject_images_and_runs(const std::string& path) {
  inference::reject_installed_elsewhere(path);
  if (!path_exists(path)) return;
  const std::string word = printable(shell_word(path));
  switch (inference::find_source_kind(path)) {
    case inference::SourceKind::kConfig:
      return;
    case inference::SourceKind::kRun:
      throw ConfigError({path, 0, 0}, "is a run; its config is checked by: trainer validate ",
                        printable(shell_word(train::config_file(path).string())));
    case inference::SourceKind::kImageFolder:
      throw ConfigError({path, 0, 0}, "holds images, which `trainer data ", word,
                        "` checks; this command takes configs");
    case inference::SourceKind::kImageList:
      throw ConfigError({path, 0, 0}, "is a list of images, which `trainer data ", word,
                        "` checks; this command takes configs");
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
