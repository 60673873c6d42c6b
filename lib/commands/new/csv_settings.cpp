#include "commands/new/csv_settings.h"

#include <string>

#include "base/error.h"

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
    throw ConfigError({}, concat("--set data.csv.", kKey,
                                 ": `trainer new` writes configs of one class per image; give "
                                 "this key and model.loss: binary_cross_entropy in a config of "
                                 "your own"));
  }
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

}  // namespace trainer::commands
