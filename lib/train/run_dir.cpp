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

void prepare_run_folder(const Path& run, const config::Config& config, Start start) {
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
    for (const char* name : {"checkpoints", "metrics.csv", "metrics.jsonl", "tensorboard",
                             "data_report.txt", "evaluator"}) {
      fs::remove_all(run / name);
    }
    fs::create_directories(checkpoint_folder(run));
  }
  write_file_atomic(config_file(run), config::to_yaml(config));
}

}  // namespace trainer::train
