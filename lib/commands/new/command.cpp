#include "commands/new/command.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/process/shell.h"
#include "commands/new/image_config.h"
#include "config/describe/emit.h"
#include "inference/open_model/run_archive.h"
#include "inference/open_model/source.h"

namespace trainer::commands {
namespace {

// Returns a config for the images of the source.
std::string make_first_config(const NewArguments& arguments, const std::string& output,
                              const Context& context) {
  for (const config::Override& setting : arguments.settings) {
    if (is_of_csv(setting)) continue;
    throw ConfigError({}, "--set ", setting.path,
                      ": a config for images takes only settings of data.csv; edit "
                      "the file that `trainer new` writes");
  }
  return make_image_config(
      {arguments.source, output, arguments.backbone, arguments.group_by, arguments.settings},
      context);
}

// Throws ConfigError for options that are for images alone. `source`: "NAME is a run".
void check_no_images(const NewArguments& arguments, const std::string& source) {
  if (!arguments.group_by.empty()) {
    throw ConfigError({}, "--group-by is for a folder or a list of images; ", source,
                      ": set data.group_by in it");
  }
  if (arguments.backbone) {
    throw ConfigError({}, "--backbone is for a folder or a list of images; ", source,
                      ", whose model.backbone names the backbone");
  }
}

std::string make_config_text(const NewArguments& arguments, const std::string& output,
                             const Context& context) {
  using enum inference::SourceKind;
  const std::string& source = arguments.source;
  const inference::SourceKind kind = inference::find_source_kind(source);
  if (kind == kConfig) inference::reject_installed_elsewhere(source);
  if (kind == kRun) {
    check_no_images(arguments, source + " is a run");
    return config::commented_yaml(
        inference::load_recorded(source, arguments.settings, context.environment).config);
  }
  if (kind == kConfig && std::filesystem::exists(source)) {
    check_no_images(arguments, source + " is a file");
    return config::commented_yaml(
        config::load_config(source, arguments.settings, context.environment).config);
  }
  return make_first_config(arguments, output, context);
}

}  // namespace

int execute(const NewArguments& arguments, const Context& context) {
  const std::string output =
      arguments.output.empty() ? default_output(arguments.source) : arguments.output;
  check_output_path("--output", output, arguments.overwrite);
  write_config(make_config_text(arguments, output, context), output, context.environment);
  const std::string word = shell_word(output);
  context.out << output << "\nnext: trainer plan " << word << "\n      trainer train " << word
              << '\n';
  return kExitOk;
}

}  // namespace trainer::commands
