#include "base/error.h"
#include "commands/new/command.h"
#include "config/rule.h"
#include "config/values.h"
#include "options/options.h"

namespace trainer::app {
namespace {

config::Backbone::Name parse_backbone(const std::string& name) {
  using Name = config::Backbone::Name;
  if (const std::optional<Name> value = parse_enum<Name>(name)) return *value;
  throw ConfigError(
      {}, "--backbone: " +
              config::unknown("backbone", name, "`trainer models` lists them", enum_words<Name>()));
}

}  // namespace

void add_new(CommandLine& line) {
  const auto arguments = std::make_shared<commands::NewArguments>();
  const Command command = line.add_command(
      "new", "A commented config to start with, for images or from another config");
  command
      .add_option(
          "source", arguments->source,
          "Folder with one folder per class, or with train, validation and test; a zip archive of "
          "these; a list of images and classes (CSV); or a config or a run, whose every value is "
          "then written out")
      .required();
  command.add_option("--output", arguments->output,
                     "The file; <name of the source>.yaml here when left out");
  command.add_action(
      "--backbone NAME",
      [arguments](const std::string& name) { arguments->backbone = parse_backbone(name); },
      "Backbone whose ImageNet weights to start from, one of `trainer models`; a small one "
      "whose weights are found when left out");
  command.add_option(
      "--group-by PATTERN", arguments->group_by,
      "Files to keep in one split, such as those of a patient: a regular expression on "
      "paths, or a column of the list (data.group_by)");
  command.add_flag("--overwrite", arguments->overwrite, "Replace the file");
  add_overrides(command, arguments->settings, Shorthands::kNone);
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
