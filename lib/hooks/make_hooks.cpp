#include "hooks/hooks.h"

namespace trainer::hooks {

std::vector<std::unique_ptr<Hook>> make_hooks(const config::Config& config, std::ostream& out,
                                              const Output& output) {
  std::vector<std::unique_ptr<Hook>> hooks;
  if (output.json) {
    hooks.push_back(
        make_json_hook(out, config.run.log_every, output.facts.clock, output.facts.output_closed));
  } else {
    hooks.push_back(
        make_progress_hook(out, output.is_tty, output.quiet, config.run.log_every, output.facts));
  }
  hooks.push_back(make_metrics_files_hook(config.run.summary_every, output.facts.clock));
  if (config.run.tensorboard) hooks.push_back(make_tensorboard_hook(config.run.summary_every));
  if (config.train.early_stop) hooks.push_back(make_early_stop_hook(*config.train.early_stop));
  if (config.train.stop_at) hooks.push_back(make_stop_at_hook(*config.train.stop_at));
  if (output.warn) hooks.push_back(make_divergence_hook(config, output.warn));
  return hooks;
}

}  // namespace trainer::hooks
