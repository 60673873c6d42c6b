#include "inference/decisions/stored_result.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

namespace trainer::inference {

using OrderedJson = nlohmann::ordered_json;

// Returns the command by which evaluate, with this option, writes a result of the model anew.
static std::string evaluate_command(const OpenedModel& opened, const std::string& option,
                                    bool flip) {
  std::string command =
      concat("trainer evaluate ", printable(shell_word(opened.path)), ' ', option);
  if (!opened.checkpoint_option.empty()) command += ' ' + opened.checkpoint_option;
  return command + (flip ? " --flip" : "");
}

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

results::StoredOrigin make_origin(const OpenedModel& opened, bool flip) {
  return {opened.step, checkpoint::sha256_of(opened.file.tensors), flip};
}

std::optional<Path> find_stored_path(const OpenedModel& opened, const std::string& name) {
  const std::optional<Path> run = find_run_folder(opened);
  if (!run) return std::nullopt;
  Path file = *run / name;
  if (std::filesystem::is_symlink(file)) {
    throw DataError(file,
                    "is a link inside a run folder, and the result would be written to what it "
                    "points to; remove the link");
  }
  return file;
}

std::string write_stored(const OpenedModel& opened, const std::string& name,
                         const std::string& line) {
  const std::optional<Path> file = find_stored_path(opened, name);
  if (!file) return "";
  write_file_atomic(*file, line);
  return file->string();
}

void repeat_contradiction(const OpenedModel& opened, const std::string& name,
                          const std::string& contradiction) {
  if (contradiction.empty()) return;
  const Path file = *find_run_folder(opened) / name;
  opened.warn(concat(printable(file.string()), ": ", printable(contradiction)));
}

results::JsonSource find_source(const OpenedModel& opened, bool flip, const std::string& name,
                                const std::string& option) {
  return {(*find_run_folder(opened) / name).string(),
          concat("write it anew with `", evaluate_command(opened, option, flip), '`')};
}

std::optional<OrderedJson> find_stored(const OpenedModel& opened, bool flip,
                                       const results::JsonSource& source, const std::string& option,
                                       const Warn& warn) {
  std::optional<OrderedJson> json = results::read_json_file(source);
  if (!json) return std::nullopt;
  const auto origin = results::from_json<results::StoredOrigin>(*json, source);
  const std::string again = concat('`', evaluate_command(opened, option, flip), "` writes it anew");
  if (origin.tensors_sha256 != checkpoint::sha256_of(opened.file.tensors)) {
    warn(concat(printable(source.file), ": belongs to the parameters of step ", origin.step,
                ", not to those of step ", opened.step, " that are used now, so it is ignored; ",
                again));
    return std::nullopt;
  }
  if (origin.flip != flip) {
    warn(concat(printable(source.file), ": was made ", flip ? "without" : "with",
                " --flip, so it is ignored; ", again));
    return std::nullopt;
  }
  return json;
}

}  // namespace trainer::inference
