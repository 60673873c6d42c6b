#include "commands/new/image_config.h"

#include <algorithm>

#include "backend/open.h"
#include "base/error.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "commands/new/starter.h"
#include "commands/weights/weights.h"
#include "config/pretrained.h"
#include "inference/open_model/source.h"

namespace trainer::commands {
namespace {

// Throws ConfigError for a setting that gives images several labels.
void refuse_several_labels(const std::vector<config::Override>& settings) {
  constexpr char kKey[] = "label_separator";
  for (const config::Override& setting : settings) {
    const bool is_map = setting.path == "data.csv";
    if (setting.path != concat("data.csv.", kKey) &&
        !(is_map && setting.value.find(kKey) != std::string::npos)) {
      continue;
    }
    throw ConfigError({}, "--set data.csv.", kKey,
                      ": `trainer new` writes configs of one class per image; give this key and "
                      "model.loss: binary_cross_entropy in a config of your own");
  }
}

// Returns a path without a slash at its end, also of ".".
Path to_whole_path(const Path& path) {
  const Path whole = std::filesystem::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

// Returns the command that writes the config of images anew.
std::string rewrite_command(const ImageConfigRequest& request) {
  std::vector<std::string> words{"trainer new", shell_word(request.source)};
  if (request.output != default_output(request.source)) {
    words.insert(words.end(), {"--output", shell_word(request.output)});
  }
  if (!request.group_by.empty()) {
    words.insert(words.end(), {"--group-by", shell_word(request.group_by)});
  }
  for (const config::Override& setting : request.settings) {
    if (!is_of_csv(setting)) continue;
    words.insert(words.end(), {"--set", shell_word(config::to_setting(setting))});
  }
  words.emplace_back("--overwrite");
  return join(words, " ");
}

// Where no pretrained weights are found, asks whether to download some, and shows the
// commands that do if nobody can answer.
FoundWeights find_or_offer_weights(const ImageConfigRequest& request, bool on_cpu,
                                   const Context& context) {
  const auto find = [&] {
    return find_weights(request.source, context.environment, on_cpu, request.backbone);
  };
  for (const std::string& line : config::describe_unreadable_folders(context.environment)) {
    context.warn(Notice::note(line));
  }
  FoundWeights found = find();
  if (!found.backbone.empty()) return found;
  const WeightFile weights =
      find_weight_file(on_cpu ? "mobilenet_v2" : "resnet50", context.environment);
  const std::string missing =
      "no pretrained weights were found, without which the model learns from these images alone";
  if (!context.ask) {
    context.warn(Notice::note(concat(missing, "; `trainer weights ", weights.name, "` downloads ",
                                     weights.megabytes, " MB, and then `", rewrite_command(request),
                                     "` writes a config that uses them")));
    return found;
  }
  context.warn(Notice::note(missing));
  if (!context.ask(concat("Download those of ", weights.name, ", ", weights.megabytes, " MB from ",
                          weights.url, "?"))) {
    return found;
  }
  context.warn(Notice::note(describe(download_weights(weights, context))));
  return find();
}

bool is_on_cpu(const Context& context) {
  backend::DeviceOptions options;
  options.platform = backend::read_platform(context.environment);
  return backend::open_backends(options).front()->reads_host_memory();
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
  throw ConfigError({}, file, " exists and its data is not in ", source,
                    "; write another config with `trainer new ", shell_word(source),
                    " --output FILE` and name that one");
}

// Warns if the config was written without the pretrained weights that are found now.
void warn_of_found_weights(ImageConfigRequest request, const config::Config& existing,
                           const Context& context) {
  const std::string file = request.output;
  if (existing.model.backbone || !is_without_weights(read_text_file(file))) return;
  const FoundWeights found = find_weights(request.source, context.environment, is_on_cpu(context));
  if (found.backbone.empty()) return;
  request.group_by = existing.data.group_by;
  const std::string csv =
      existing.data.format == config::DataFormat::kCsv ? "; repeat your settings of data.csv" : "";
  context.warn(concat(file, " was written before ", printable(found.file.string()),
                      " was there, and its model learns from these images alone; `",
                      rewrite_command(request), "` writes the config anew, with these weights and ",
                      "without your changes", csv));
}

}  // namespace

bool is_of_csv(const config::Override& setting) {
  return setting.path == "data.csv" || setting.path.starts_with("data.csv.");
}

config::Csv read_csv_settings(std::vector<config::Override> settings,
                              const config::Environment& environment) {
  refuse_several_labels(settings);
  std::erase_if(settings, [](const config::Override& setting) { return !is_of_csv(setting); });
  // The smallest config of a list, which the settings complete.
  constexpr char kText[] =
      "model: {input: [1, 1, 3], layers: [flatten, dense: 2]}\n"
      "data: {format: csv, train: {path: list.csv}, resize: [1, 1]}\n"
      "train: {max_steps: 1, batch_size: 1}\n";
  return config::parse_config(kText, "config", settings, environment).config.data.csv;
}

std::string default_output(const Path& source) {
  return to_whole_path(source).stem().string() + ".yaml";
}

std::string make_image_config(const ImageConfigRequest& request, const Context& context) {
  ImageSource images =
      look_at(request.source, read_csv_settings(request.settings, context.environment));
  for (const std::string& note : images.notes) context.warn(note);
  if (!request.group_by.empty()) set_groups(images, request.group_by);
  return make_config(images, find_or_offer_weights(request, is_on_cpu(context), context),
                     request.backbone);
}

void write_config(const std::string& text, const std::string& output,
                  const config::Environment& environment) {
  // What is written must be a config.
  config::parse_config(text, output, {}, environment);
  write_file_atomic(output, text);
}

std::string find_config(const std::string& source, const std::vector<config::Override>& settings,
                        const Context& context) {
  const inference::SourceKind kind = inference::find_source_kind(source);
  if (kind == inference::SourceKind::kConfig) {
    inference::reject_installed_elsewhere(source);
    return source;
  }
  if (kind == inference::SourceKind::kRun) {
    throw ConfigError({}, source,
                      " is a run; this command takes a config: write one with `trainer new ",
                      shell_word(source), " --output FILE`");
  }
  const std::string file = default_output(source);
  ImageConfigRequest request{source, file, {}, {}, settings};
  if (std::filesystem::exists(file)) {
    const config::Config existing = config::load_config(file, {}, context.environment).config;
    check_reads(file, existing.data, source);
    context.warn(Notice::note(concat(file, " exists and is the config of ", source)));
    warn_of_found_weights(request, existing, context);
    return file;
  }
  write_config(make_image_config(request, context), file, context.environment);
  context.warn(
      Notice::note(concat("wrote ", file, ", the config of ", source, "; edit it as you like")));
  return file;
}

}  // namespace trainer::commands
