#include "inference/open_model/recorded_paths.h"

#include "config/paths.h"
#include "results/run_record.h"
#include "train/run_dir.h"

namespace trainer::inference {

namespace fs = std::filesystem;

void find_recorded_paths(config::LoadedConfig& loaded, const Path& run, const std::string& base) {
  if (base.empty() || Path(base).is_absolute()) return;
  std::error_code error;
  const Path folder = fs::relative(run / base, error);
  if (!folder.empty()) config::find_paths_of_run(loaded, folder);
}

std::string read_base(const Path& run) {
  return results::find_run_record(run).value_or(results::RunRecord{}).base;
}

config::LoadedConfig load_recorded(const Path& run, const std::vector<config::Override>& overrides,
                                   const config::Environment& environment) {
  const std::string file = train::config_file(run).string();
  config::LoadedConfig loaded =
      config::parse_recorded_config(read_text_file(file), file, overrides, environment);
  find_recorded_paths(loaded, run, read_base(run));
  return loaded;
}

}  // namespace trainer::inference
