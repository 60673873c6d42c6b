#include "train/run_dir.h"

#include "base/error.h"

namespace trainer::train {
namespace fs = std::filesystem;

Path run_folder(const config::Config& config) {
  return config.run.dir.empty() ? Path("runs") / config.name : Path(config.run.dir);
}

Path checkpoint_folder(const Path& run) { return run / "checkpoints"; }

Path config_file(const Path& run) { return run / "config.yaml"; }

Path evaluator_folder(const Path& run, const std::string& split) {
  return run / "evaluator" / split;
}

namespace {

// What a run replaces or goes on with, and what somebody else may have put under these names.
constexpr const char* kOwn[] = {"config.yaml", "metrics.csv", "metrics.jsonl",
                                "ledger.csv",  "run.json",    "tensorboard"};

void refuse_folder_of_others(const Path& run, const config::Config& config) {
  if (fs::exists(checkpoint_folder(run))) return;
  for (const char* name : kOwn) {
    if (!fs::exists(run / name)) continue;
    throw ConfigError(config.run.loc,
                      concat("run.dir: ", run.string(), " holds a ", name,
                             " but no checkpoints, "
                             "so it is not the folder of a run; choose another with --run-dir"));
  }
}

}  // namespace

void prepare_run_folder(const Path& run, const config::Config& config, Start start) {
  refuse_folder_of_others(run, config);
  std::error_code error;
  fs::create_directories(checkpoint_folder(run), error);
  if (error) {
    throw ConfigError(config.run.loc,
                      concat("run.dir: cannot create ", run.string(), ": ", error.message()));
  }
  const bool used = !fs::is_empty(checkpoint_folder(run));
  if (used && start == Start::kFresh) {
    throw ConfigError(config.run.loc,
                      concat("run.dir: ", run.string(), " already holds the checkpoints of a run; ",
                             "continue it with --resume, replace it with --overwrite, or choose "
                             "another folder with --run-dir"));
  }
  if (start == Start::kOverwrite) {
    for (const char* name : kOwn) fs::remove_all(run / name);
    for (const char* name : {"checkpoints", "data_report.txt", "evaluator"})
      fs::remove_all(run / name);
    fs::create_directories(checkpoint_folder(run));
  }
}

void write_config(const Path& run, const config::Config& config) {
  write_file_atomic(config_file(run), config::to_yaml(config));
}

}  // namespace trainer::train
