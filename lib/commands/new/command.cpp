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

std::string make_config_text(const NewArguments& arguments, const std::string& output,
                             const Context& context) {
  const Path source = arguments.source;
  const inference::SourceKind kind = inference::find_source_kind(source);
  if (kind == inference::SourceKind::kConfig)
    inference::reject_installed_elsewhere(source.string());
  const bool is_config = kind == inference::SourceKind::kConfig && std::filesystem::exists(source);
  if (!is_config && kind != inference::SourceKind::kRun) {
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
  if (!arguments.group_by.empty()) {
    throw ConfigError({}, "--group-by is for a folder or a list of images; ", source.string(),
                      is_config ? " is a file" : " is a run", ": set data.group_by in it");
  }
  if (arguments.backbone) {
    throw ConfigError({}, "--backbone is for a folder or a list of images; ", source.string(),
                      is_config ? " is a file" : " is a run",
                      ", whose model.backbone names the backbone");
  }
  const config::LoadedConfig loaded =
      is_config
          ? config::load_config(arguments.source, arguments.settings, context.environment)
          : inference::load_recorded(arguments.source, arguments.settings, context.environment);
  return config::commented_yaml(loaded.config);
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
