#include "hooks/hooks.h"

namespace trainer::hooks {

std::vector<std::unique_ptr<Hook>> make_hooks(const config::Config& config, std::ostream& out,
                                              const Output& output) {
  std::vector<std::unique_ptr<Hook>> hooks;
  if (output.json) {
    hooks.push_back(make_json_hook(out, config.run.log_every));
  } else {
    hooks.push_back(make_progress_hook(out, output.is_tty, output.quiet, config.run.log_every));
  }
  hooks.push_back(make_metrics_files_hook(config.run.summary_every));
  if (config.run.tensorboard) hooks.push_back(make_tensorboard_hook(config.run.summary_every));
  if (config.train.early_stop) hooks.push_back(make_early_stop_hook(*config.train.early_stop));
  return hooks;
}

}  // namespace trainer::hooks
