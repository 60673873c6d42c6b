#include "train/run_dir.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/files/sync.h"
#include "base/process/shell.h"
#include "base/system_error.h"
#include "base/text.h"
#include "data/image_split.h"

namespace trainer::train {
namespace fs = std::filesystem;

Path run_folder(const config::Config& config) {
  if (!config.run.dir.empty()) return config.run.dir;
  const std::optional<std::int64_t>& fold = config.data.fold;
  return Path("runs") / (fold ? concat(config.name, "_fold", *fold) : config.name);
}

Path checkpoint_folder(const Path& run) { return run / "checkpoints"; }

Path config_file(const Path& run) { return run / "config.yaml"; }

std::string find_base(const Path& run) {
  std::error_code error;
  const Path here = fs::current_path(error);
  return error ? "" : fs::relative(here, run, error).string();
}

Path evaluator_folder(const Path& run, Split split) { return run / "evaluator" / to_string(split); }

namespace {

constexpr const char* kWarnings = "warnings.jsonl";
// The names of the files that a run replaces or continues. Other programs may have files of these
// names in the folder.
constexpr const char* kOwn[] = {
    "config.yaml",  "metrics.csv",          "metrics.jsonl",   "ledger.csv",
    "run.json",     "mlflow.json",          "tensorboard",     "calibration.json",
    "curves.json",  "operating_point.json", "abstention.json", "thresholds.json",
    "novelty.json", "novelty.safetensors",  kWarnings};
constexpr const char* kDataReport = "data_report.txt";
constexpr const char* kPredictions = "predictions.jsonl";

void check_folder_is_run(const Path& run, const config::Config& config) {
  if (fs::exists(checkpoint_folder(run))) return;
  for (const char* name : kOwn) {
    if (!fs::exists(run / name)) continue;
    throw ConfigError(config.run.loc, "run.dir: ", printable(run.string()), " holds a ", name,
                      " but no checkpoints, "
                      "so it is not the folder of a run; choose another with --run-dir");
  }
}

// Removes the temporary files that killed processes left. Only the process that holds the run's
// lock writes such files, so that none of them is in use.
void remove_leftovers_of_run(const Path& run) {
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    const bool is_own = name.starts_with(concat(kDataReport, ".tmp.")) ||
                        std::any_of(std::begin(kOwn), std::end(kOwn), [&](const char* file) {
                          return name.starts_with(concat(file, ".tmp."));
                        });
    std::error_code ignored;
    if (is_own) fs::remove(entry.path(), ignored);
  }
}

// Syncs the names of the run's folders, so that a loss of power does not remove folders whose
// checkpoints were synced. Ignores folders that cannot be opened and file systems without sync.
void sync_names(const Path& run) {
  Path folder = fs::absolute(run).lexically_normal();
  for (int levels = 0; levels < 3; ++levels, folder = folder.parent_path()) {
    try {
      sync_path(folder);
    } catch (const DataError&) {
    }
  }
}

[[noreturn]] void throw_link(const Path& link) {
  throw DataError(link,
                  "is a link inside a run folder, and training would write to what it points "
                  "to; remove the link, or choose another folder with --run-dir");
}

// Throws DataError for a link in the place of a file that a run writes: a run folder that came from
// elsewhere may link to files of the user, such as metrics.csv -> ~/.profile, or to the checkpoints
// of another run, of which training would remove the older ones.
void check_no_links(const Path& run) {
  std::error_code error;
  for (const char* name : kOwn) {
    if (fs::is_symlink(run / name)) throw_link(run / name);
  }
  for (const char* name : {kDataReport, "checkpoints", "features"}) {
    if (fs::is_symlink(run / name)) throw_link(run / name);
  }
  for (fs::recursive_directory_iterator file(run / "tensorboard", error), end;
       !error && file != end; file.increment(error)) {
    if (file->is_symlink()) throw_link(file->path());
  }
  for (const char* name : {"checkpoints", "features"}) {
    for (fs::directory_iterator file(run / name, error), end; !error && file != end;
         file.increment(error)) {
      if (file->is_symlink()) throw_link(file->path());
    }
  }
}

}  // namespace

void check_outside_data(const Path& folder, const config::Config& config,
                        const std::string& option) {
  if (config.data.format != config::DataFormat::kImageFolder) return;
  const Path run = fs::weakly_canonical(folder);
  for (const Split split : kSplits) {
    const std::string path = data::image_split(config.data, split).path;
    if (path.empty() || !fs::is_directory(path)) continue;
    const Path images = fs::weakly_canonical(path);
    const auto [end, inner] = std::mismatch(images.begin(), images.end(), run.begin(), run.end());
    if (end != images.end()) continue;
    throw ConfigError(
        config.run.loc, printable(folder.string()), " is or lies in ", printable(path),
        ", whose folders are classes of images; choose a folder elsewhere with ", option);
  }
}

void prepare_run_folder(const Path& run, const config::Config& config, Start start) {
  check_folder_is_run(run, config);
  check_no_links(run);
  std::error_code error;
  fs::create_directories(checkpoint_folder(run), error);
  if (error) {
    throw DataError(
        checkpoint_folder(run), "cannot create this folder: ", describe_system_error(error.value()),
        "; check its permissions, the disk and its free space, or choose another folder "
        "with --run-dir");
  }
  sync_names(run);
  remove_leftovers_of_run(run);
  const bool used = !fs::is_empty(checkpoint_folder(run));
  if (used && start == Start::kFresh) {
    throw ConfigError(config.run.loc, "run.dir: ", printable(run.string()),
                      " already holds the checkpoints of a run; ",
                      "continue it with --resume, replace it with --overwrite, or choose "
                      "another folder with --run-dir");
  }
  // A session that ended before its first checkpoint may have left warnings.
  if (start != Start::kResume) fs::remove(run / kWarnings);
  if (start == Start::kOverwrite) {
    for (const char* name : kOwn) fs::remove_all(run / name);
    for (const char* name : {"checkpoints", kDataReport, kPredictions, "evaluator"}) {
      fs::remove_all(run / name);
    }
    fs::create_directories(checkpoint_folder(run));
    sync_names(run);
  }
}

void remove_stored_predictions(const Path& run) {
  std::error_code error;
  fs::remove(run / kPredictions, error);
}

std::string sync_warning(const Path& run) {
  if (can_sync_folder(checkpoint_folder(run))) return "";
  return concat(printable(run.string()),
                ": this file system cannot sync folders, so that a loss of power may take the "
                "newest checkpoint; choose a folder on another file system with --run-dir");
}

std::string new_run_advice(const Path& run) {
  const std::string setting =
      config::to_setting({"model.weights", run.string(), "--set", config::Override::Syntax::kText});
  return concat("start a new run from its parameters: --run-dir NEW --set ", shell_word(setting),
                " without --resume.");
}

void write_config(const Path& run, const config::Config& config) {
  write_file_atomic(config_file(run), config::to_yaml(config));
}

}  // namespace trainer::train
