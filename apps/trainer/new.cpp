#include <iostream>
#include <optional>
#include <vector>

#include "backend/open.h"
#include "base/error.h"
#include "commands.h"
#include "commands/new/starter.h"
#include "config/describe/commented.h"
#include "config/rule.h"
#include "config/values.h"

namespace trainer::app {
namespace {

struct NewArguments {
  std::string source;  // a folder of images, or a config
  std::string output;
  bool overwrite = false;
  std::optional<config::Backbone::Name> backbone;  // for a folder of images
};

// The folder's name, also of "." and of one with a slash at its end.
std::string find_stem(const Path& source) {
  const Path whole = std::filesystem::absolute(source).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).stem();
}

std::string text_for(const NewArguments& arguments) {
  const Path source = arguments.source;
  if (std::filesystem::is_regular_file(source)) {
    if (arguments.backbone) {
      throw ConfigError({}, concat("--backbone is for a folder of images; ", source.string(),
                                   " is a file, whose model.backbone names the backbone"));
    }
    return config::commented_yaml(config::load_config(source, {}, environment()).config);
  }
  const bool on_cpu = backend::open_backends({}).front()->reads_host_memory();
  const commands::ImageFolder images = commands::look_at(source);
  return commands::starting_config(
      images, commands::find_weights(source, environment(), on_cpu, arguments.backbone), on_cpu,
      arguments.backbone);
}

config::Backbone::Name backbone_named(const std::string& name) {
  using Name = config::Backbone::Name;
  if (const std::optional<Name> value = config::parse_enum<Name>(name)) return *value;
  throw ConfigError(
      {}, "--backbone: " + config::unknown("backbone", name, "`trainer models` lists them",
                                           config::enum_words<Name>()));
}

int create(const NewArguments& arguments) {
  const std::string output =
      arguments.output.empty() ? find_stem(arguments.source) + ".yaml" : arguments.output;
  check_output_path("--output", output, arguments.overwrite);
  const std::string text = text_for(arguments);
  // What is written must be a config.
  config::parse_config(text, output, {}, environment());
  write_file_atomic(output, text);
  std::cout << output << "\nnext: trainer plan " << output << "\n      trainer train " << output
            << '\n';
  return kExitOk;
}

}  // namespace

void add_new(CommandLine& line) {
  const auto arguments = std::make_shared<NewArguments>();
  const Command command = line.add_command(
      "new", "A commented config to start with, for a folder of images or from another config");
  command
      .add_option(
          "source", arguments->source,
          "Folder with one folder per class, or with train, validation and test; or a config, "
          "whose every value is then written out")
      .required();
  command.add_option("--output", arguments->output,
                     "The file; <name of the source>.yaml here when left out");
  command
      .add_action(
          "--backbone",
          [arguments](const std::string& name) { arguments->backbone = backbone_named(name); },
          "Backbone whose ImageNet weights to start from, one of `trainer models`; a small one "
          "whose weights are found when left out")
      .type_name("NAME");
  command.add_flag("--overwrite", arguments->overwrite, "Replace the file");
  command.run([arguments] { return create(*arguments); });
}

}  // namespace trainer::app
