#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <vector>

#include "backend/open.h"
#include "base/error.h"
#include "base/process/shell.h"
#include "options/commands.h"
#include "commands/new/starter.h"
#include "commands/open_model/source.h"
#include "commands/weights/weights.h"
#include "config/describe/emit.h"
#include "config/rule.h"
#include "config/values.h"
#include "options/options.h"
#include "train/run_dir.h"

namespace trainer::app {
namespace {

using commands::SourceKind;

struct NewArguments {
  std::string source;  // a folder, an archive or a list of images, a run or a config
  std::string output;
  bool overwrite = false;
  std::optional<config::Backbone::Name> backbone;  // for images
  std::string group_by;                            // for images
  std::vector<config::Override> settings;
};

// Returns a path without a slash at its end, also of ".".
Path to_whole_path(const Path& path) {
  const Path whole = std::filesystem::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

// Returns <name of the source>.yaml in the current folder.
std::string default_output(const Path& source) {
  return to_whole_path(source).stem().string() + ".yaml";
}

bool is_of_csv(const config::Override& setting) {
  return setting.path == "data.csv" || setting.path.starts_with("data.csv.");
}

// Throws ConfigError for a setting that gives images several labels.
void refuse_several_labels(const std::vector<config::Override>& settings) {
  constexpr char kKey[] = "label_separator";
  for (const config::Override& setting : settings) {
    const bool is_map = setting.path == "data.csv";
    if (setting.path != concat("data.csv.", kKey) &&
        !(is_map && setting.value.find(kKey) != std::string::npos)) {
      continue;
    }
    throw ConfigError({}, concat("--set data.csv.", kKey,
                                 ": `trainer new` writes configs of one class per image; give "
                                 "this key and model.loss: binary_cross_entropy in a config of "
                                 "your own"));
  }
}

// Returns data.csv with the settings of its keys. Ignores those of other keys.
config::Csv read_csv_settings(std::vector<config::Override> settings) {
  std::erase_if(settings, [](const config::Override& setting) { return !is_of_csv(setting); });
  // The smallest config of a list, which the settings complete.
  constexpr char kText[] =
      "model: {input: [1, 1, 3], layers: [flatten, dense: 2]}\n"
      "data: {format: csv, train: {path: list.csv}, resize: [1, 1]}\n"
      "train: {max_steps: 1, batch_size: 1}\n";
  return config::parse_config(kText, "config", settings, environment()).config.data.csv;
}

// Returns the command that writes the config of images anew.
std::string rewrite_command(const NewArguments& arguments) {
  std::vector<std::string> words{"trainer new", shell_word(arguments.source)};
  if (arguments.output != default_output(arguments.source)) {
    words.insert(words.end(), {"--output", shell_word(arguments.output)});
  }
  if (!arguments.group_by.empty()) {
    words.insert(words.end(), {"--group-by", shell_word(arguments.group_by)});
  }
  for (const config::Override& setting : arguments.settings) {
    if (!is_of_csv(setting)) continue;
    words.insert(words.end(), {"--set", shell_word(config::to_setting(setting))});
  }
  words.emplace_back("--overwrite");
  return join(words, " ");
}

bool ask_yes(const std::string& question) {
  std::cerr << question << " [Y/n] " << std::flush;
  std::string answer;
  if (!std::getline(std::cin, answer)) return false;
  return answer.empty() || answer[0] == 'y' || answer[0] == 'Y';
}

// Where no pretrained weights are found, asks on a terminal whether to download some, and otherwise
// prints the commands that do.
commands::FoundWeights find_or_offer_weights(const NewArguments& arguments, bool on_cpu) {
  const auto find = [&] {
    return commands::find_weights(arguments.source, environment(), on_cpu, arguments.backbone);
  };
  commands::FoundWeights found = find();
  if (!found.backbone.empty()) return found;
  const commands::WeightFile weights =
      commands::find_weight_file(on_cpu ? "mobilenet_v2" : "resnet50", environment());
  const std::string missing =
      "no pretrained weights were found, without which the model learns from these images alone";
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDERR_FILENO) == 0) {
    warn(Notice::note(concat(missing, "; `trainer weights ", weights.name, "` downloads ",
                             weights.megabytes, " MB, and then `", rewrite_command(arguments),
                             "` writes a config that uses them")));
    return found;
  }
  warn(Notice::note(missing));
  if (!ask_yes(concat("Download those of ", weights.name, ", ", weights.megabytes, " MB from ",
                      weights.url, "?"))) {
    return found;
  }
  warn(Notice::note(describe(download_weights(weights))));
  return find();
}

bool is_on_cpu() { return backend::open_backends({}).front()->reads_host_memory(); }

std::string text_for_images(const NewArguments& arguments) {
  refuse_several_labels(arguments.settings);
  commands::ImageSource images =
      commands::look_at(arguments.source, read_csv_settings(arguments.settings));
  for (const std::string& note : images.notes) warn(note);
  if (!arguments.group_by.empty()) commands::set_groups(images, arguments.group_by);
  return commands::starting_config(images, find_or_offer_weights(arguments, is_on_cpu()),
                                   arguments.backbone);
}

std::string text_for(const NewArguments& arguments) {
  const Path source = arguments.source;
  const SourceKind kind = commands::find_source_kind(source);
  if (kind == SourceKind::kConfig) reject_installed_elsewhere(source.string());
  const bool is_config = kind == SourceKind::kConfig && std::filesystem::exists(source);
  if (!is_config && kind != SourceKind::kRun) {
    for (const config::Override& setting : arguments.settings) {
      if (is_of_csv(setting)) continue;
      throw ConfigError({}, concat("--set ", setting.path,
                                   ": a config for images takes only settings of data.csv; edit "
                                   "the file that `trainer new` writes"));
    }
    return text_for_images(arguments);
  }
  if (!arguments.group_by.empty()) {
    throw ConfigError({},
                      concat("--group-by is for a folder or a list of images; ", source.string(),
                             is_config ? " is a file" : " is a run", ": set data.group_by in it"));
  }
  if (arguments.backbone) {
    throw ConfigError({}, concat("--backbone is for a folder or a list of images; ",
                                 source.string(), is_config ? " is a file" : " is a run",
                                 ", whose model.backbone names the backbone"));
  }
  const config::LoadedConfig loaded =
      is_config ? config::load_config(arguments.source, arguments.settings, environment())
                : load_recorded(arguments.source, arguments.settings);
  return config::commented_yaml(loaded.config);
}

void write_config(const std::string& text, const std::string& output) {
  // What is written must be a config.
  config::parse_config(text, output, {}, environment());
  write_file_atomic(output, text);
}

config::Backbone::Name backbone_named(const std::string& name) {
  using Name = config::Backbone::Name;
  if (const std::optional<Name> value = parse_enum<Name>(name)) return *value;
  throw ConfigError(
      {}, "--backbone: " +
              config::unknown("backbone", name, "`trainer models` lists them", enum_words<Name>()));
}

int create(NewArguments arguments) {
  if (arguments.output.empty()) arguments.output = default_output(arguments.source);
  const std::string& output = arguments.output;
  check_output_path("--output", output, arguments.overwrite);
  write_config(text_for(arguments), output);
  const std::string word = shell_word(output);
  std::cout << output << "\nnext: trainer plan " << word << "\n      trainer train " << word
            << '\n';
  return kExitOk;
}

// Returns whether `path` is `source` or lies in it.
bool is_within(const std::string& path, const Path& source) {
  if (path.empty()) return false;
  const Path inner = std::filesystem::weakly_canonical(to_whole_path(path));
  const Path outer = std::filesystem::weakly_canonical(to_whole_path(source));
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// Throws ConfigError if the config trains on other data than `source`, which has the same name.
void check_reads(const std::string& file, const config::Data& data, const std::string& source) {
  for (const std::string& path : {data.path, data.train.path, data.train.glob}) {
    if (is_within(path, source)) return;
  }
  throw ConfigError({}, concat(file, " exists and its data is not in ", source,
                               "; write another config with `trainer new ", shell_word(source),
                               " --output FILE` and name that one"));
}

// Warns if the config was written without the pretrained weights that are found now.
void warn_of_found_weights(NewArguments arguments, const config::Config& existing) {
  const std::string file = arguments.output;
  if (existing.model.backbone || !commands::is_without_weights(read_text_file(file))) return;
  const commands::FoundWeights found =
      commands::find_weights(arguments.source, environment(), is_on_cpu());
  if (found.backbone.empty()) return;
  arguments.group_by = existing.data.group_by;
  const std::string csv =
      existing.data.format == config::DataFormat::kCsv ? "; repeat your settings of data.csv" : "";
  warn(concat(file, " was written before ", printable(found.file.string()),
              " was there, and its model learns from these images alone; `",
              rewrite_command(arguments), "` writes the config anew, with these weights and ",
              "without your changes", csv));
}

}  // namespace

std::string find_config(const std::string& source, const std::vector<config::Override>& settings) {
  const SourceKind kind = commands::find_source_kind(source);
  if (kind == SourceKind::kConfig) {
    reject_installed_elsewhere(source);
    return source;
  }
  if (kind == SourceKind::kRun) {
    throw ConfigError({}, concat(source,
                                 " is a run; this command takes a config: write one with `trainer "
                                 "new ",
                                 shell_word(source), " --output FILE`"));
  }
  NewArguments arguments;
  arguments.source = source;
  arguments.settings = settings;
  const std::string file = arguments.output = default_output(source);
  if (std::filesystem::exists(file)) {
    const config::Config existing = config::load_config(file, {}, environment()).config;
    check_reads(file, existing.data, source);
    warn(Notice::note(concat(file, " exists and is the config of ", source)));
    warn_of_found_weights(arguments, existing);
    return file;
  }
  write_config(text_for_images(arguments), file);
  warn(Notice::note(concat("wrote ", file, ", the config of ", source, "; edit it as you like")));
  return file;
}

void add_new(CommandLine& line) {
  const auto arguments = std::make_shared<NewArguments>();
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
  command
      .add_action(
          "--backbone",
          [arguments](const std::string& name) { arguments->backbone = backbone_named(name); },
          "Backbone whose ImageNet weights to start from, one of `trainer models`; a small one "
          "whose weights are found when left out")
      .type_name("NAME");
  command
      .add_option("--group-by", arguments->group_by,
                  "Files to keep in one split, such as those of a patient: a regular expression on "
                  "paths, or a column of the list (data.group_by)")
      .type_name("PATTERN");
  command.add_flag("--overwrite", arguments->overwrite, "Replace the file");
  add_overrides(command, arguments->settings, Shorthands::kNone);
  command.run([arguments] { return create(*arguments); });
}

}  // namespace trainer::app
