#include "inference/decisions/stored_result.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/json_number.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

namespace trainer::inference {

using OrderedJson = nlohmann::ordered_json;

std::optional<Path> find_run_folder(const OpenedModel& opened) {
  return is_config(opened.path) ? std::nullopt : find_run_folder(opened.path);
}

std::optional<Path> find_run_folder(const std::string& run_or_file) {
  const Path found = checkpoint::find_checkpoints(run_or_file);
  const bool is_folder = std::filesystem::is_directory(found);
  Path folder = is_folder ? found : std::filesystem::absolute(found).parent_path();
  if (!folder.has_filename()) folder = folder.parent_path();  // of a path that ends in a slash
  if (folder.filename() != "checkpoints") return std::nullopt;
  const Path run = folder.parent_path();
  return run.empty() ? Path(".") : run;
}

std::string store_result(const OpenedModel& opened, bool flip, const std::string& name,
                         const OrderedJson& content) {
  const std::optional<Path> run = find_run_folder(opened);
  if (!run) return "";
  const Path file = *run / name;
  if (std::filesystem::is_symlink(file)) {
    throw DataError(file,
                    "is a link inside a run folder, and the result would be written to what it "
                    "points to; remove the link");
  }
  OrderedJson stored{{"step", opened.step},
                     {"tensors_sha256", checkpoint::sha256_of(opened.file.tensors)},
                     {"flip", flip}};
  stored.update(content);
  write_file_atomic(file, to_json_line(stored) + "\n");
  return file.string();
}

std::string evaluate_command(const OpenedModel& opened, const std::string& option, bool flip) {
  std::string command =
      concat("trainer evaluate ", printable(shell_word(opened.path)), ' ', option);
  if (!opened.checkpoint_option.empty()) command += ' ' + opened.checkpoint_option;
  return command + (flip ? " --flip" : "");
}

void repeat_contradiction(const OpenedModel& opened, const std::string& name,
                          const OrderedJson& result,
                          const std::function<void(const Notice&)>& warn) {
  const auto found = result.find("contradiction");
  if (found == result.end() || !found->is_string() || *found == "") return;
  const Path file = *find_run_folder(opened) / name;
  warn(concat(printable(file.string()), ": ", printable(found->get<std::string>())));
}

std::optional<OrderedJson> find_result(const OpenedModel& opened, bool flip,
                                       const std::string& name, const std::string& option,
                                       const std::function<void(const Notice&)>& warn) {
  const std::optional<Path> run = find_run_folder(opened);
  if (!run) return std::nullopt;
  const Path file = *run / name;
  const std::string again = concat('`', evaluate_command(opened, option, flip), "` writes it anew");
  std::optional<OrderedJson> json = results::read_result(file, again);
  if (!json) return std::nullopt;
  const auto sha = json->find("tensors_sha256");
  const bool same_tensors = sha != json->end() && sha->is_string() &&
                            sha->get<std::string>() == checkpoint::sha256_of(opened.file.tensors);
  if (!same_tensors) {
    const auto step = json->find("step");
    const std::string of = step == json->end() || !whole_number(*step)
                               ? "other parameters"
                               : concat("the parameters of step ", *whole_number(*step));
    warn(concat(printable(file.string()), ": belongs to ", of, ", not to those of step ",
                opened.step, " that are used now, so it is ignored; ", again));
    return std::nullopt;
  }
  if (json->value("flip", OrderedJson(false)) != OrderedJson(flip)) {
    warn(concat(printable(file.string()), ": was made ", flip ? "without" : "with",
                " --flip, so it is ignored; ", again));
    return std::nullopt;
  }
  return json;
}

}  // namespace trainer::inference
