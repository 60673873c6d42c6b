#include "line/hints.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/process/shell.h"
#include "config/values.h"

namespace trainer::app {
namespace {

// CLI11 would report the arguments of an unknown command; this check suggests the nearest command.
void check_command(const std::vector<CommandDescription>& commands, const std::string& word) {
  std::vector<std::string> names;
  for (const CommandDescription& command : commands) names.push_back(command.name);
  if (std::ranges::find(names, word) != names.end()) return;
  if (std::filesystem::exists(word)) {
    throw ConfigError({}, "'", word, "' is not a command; `trainer train ", shell_word(word),
                      "` trains with it, `trainer help` shows more");
  }
  throw ConfigError({}, config::unknown("command", word, "Commands", names));
}

// These options of other programs are rejected with what to write instead.
constexpr struct {
  const char* name;
  const char* instead;
} kOtherNames[] = {
    {"--lr", "--set optimizer.adam.learning_rate=1e-4, with the optimizer of the config"},
    {"--learning-rate",
     "--set optimizer.adam.learning_rate=1e-4, with the optimizer of the config"},
    {"--optimizer", "--set 'optimizer={sgd: {learning_rate: 0.01}}'"},
    {"--device", "--set parallel.device=cuda, or =cpu; --gpus 1 sets their number"},
    {"--batch", "--batch-size 32"},
    {"--gpu", "--gpus 1"},
    {"--imgsz", "--set 'data.resize=[224, 224]' --set 'model.input=[224, 224, 3]'"},
    {"--workers", "--set data.threads=4"},
    {"--num-workers", "--set data.threads=4"},
    {"--data", "--set data.path=FOLDER"},
    {"--data-path", "--set data.path=FOLDER"},
    {"--pretrained", "--set model.backbone.weights=imagenet"},
    {"--weights", "--set model.weights=FILE"},
    {"--amp", "--set train.precision=bfloat16"},
    {"--patience", "--set train.early_stop.patience=5"},
    {"--name", "--set name=NAME"},
    {"--output-dir", "--run-dir FOLDER"},
    {"--model", "--set model.backbone.name=resnet50"},
    {"--freeze", "--set model.backbone.freeze=all"},
    {"--dropout", "dropout: 0.5 as a layer of model.head or model.layers of the config"},
    {"--cpu", "--set parallel.device=cpu"},
};
// These names stand for `option`, in commands that have it.
constexpr struct {
  std::string_view name, option, value;
} kShortNames[] = {
    {"-o", "--output", " FILE"},
    {"--out", "--output", " FILE"},
    {"-b", "--batch-size", " 32"},
    {"-e", "--epochs", " 5"},
    {"-j", "--json", ""},
    {"-q", "--quiet", ""},
    {"-f", "--overwrite", ""},
    {"--force", "--overwrite", ""},
    {"--exist-ok", "--overwrite", ""},
    {"--save-dir", "--run-dir", " FOLDER"},
    {"--project", "--run-dir", " FOLDER"},
    {"--conf", "--abstain", " 0.05, the share of wrong predictions that is allowed"},
};

// Returns what to write instead of an unknown option of a command; "" if unknown.
std::string find_other_name(const std::string& name, const std::vector<std::string>& names) {
  for (const auto& other : kShortNames) {
    if (name != other.name) continue;
    if (std::ranges::find(names, other.option) == names.end()) continue;
    return concat("; write ", other.option, other.value);
  }
  if (std::ranges::find(names, "--set") == names.end()) return "";
  for (const auto& other : kOtherNames) {
    if (name == other.name) return concat("; write ", other.instead);
  }
  return "";
}

// CLI11 does not suggest the option that a mistyped one was meant to be.
void check_options(const std::vector<CommandDescription>& commands,
                   const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const CommandDescription& command : commands) {
    if (command.name != words[0]) continue;
    for (const OptionDescription& option : command.options) {
      for (std::string& flag : option.flags()) names.push_back(std::move(flag));
    }
  }
  for (std::size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const bool is_short =
        name.size() == 2 && name[0] == '-' && std::isalpha(static_cast<unsigned char>(name[1]));
    if (!name.starts_with("--") && !is_short) continue;
    if (std::ranges::find(names, name) != names.end()) continue;
    std::string guess = find_other_name(name, names);
    if (guess.empty() && !is_short) guess = config::suggestion(name, names);
    if (guess.empty()) guess = concat("; `trainer ", words[0], " --help` lists them");
    throw ConfigError({}, "unknown option '", name, "' of ", words[0], guess);
  }
}

// A second KEY=VALUE behind one --set would be taken for a file.
void check_settings(const std::vector<std::string>& words) {
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::string &setting = words[i], &before = words[i - 1], &option = words[i - 2];
    if (option != "--set" || setting.starts_with("-")) continue;
    const std::string key = setting.substr(0, setting.find('='));
    if (key == setting || key.empty() || std::filesystem::exists(setting)) continue;
    throw ConfigError({}, "--set takes one KEY=VALUE; write --set ", before, " --set ", setting);
  }
}

// An option before the command is one of the program's own.
void check_program_option(const std::string& word) {
  const std::vector<std::string> names{"--version", "--help", "-h"};
  if (std::ranges::find(names, word) != names.end()) return;
  const std::string guess = config::suggestion(word, names);
  throw ConfigError(
      {}, "unknown option '", word, "'",
      guess.empty() ? "; options follow a command, and `trainer help` lists commands" : guess);
}

}  // namespace

void check_words(const std::vector<CommandDescription>& commands,
                 const std::vector<std::string>& words) {
  if (words.empty()) return;
  if (words[0].starts_with('-')) return check_program_option(words[0]);
  check_command(commands, words[0]);
  check_options(commands, words);
  check_settings(words);
}

}  // namespace trainer::app
