#include <algorithm>
#include <array>
#include <string_view>

#include "config/config.h"
#include "hooks/hooks.h"

namespace trainer::hooks {
namespace {

constexpr std::size_t kMaxValueBytes = 80;  // in a table

// Returns the keys by which runs are compared, if they are given or have a default.
std::vector<std::pair<std::string, std::string>> list_parameters(const config::Config& config) {
  constexpr std::array<std::string_view, 14> kBegins{"seed",
                                                     "model.backbone.",
                                                     "model.loss",
                                                     "model.label_smoothing",
                                                     "data.resize",
                                                     "data.limit",
                                                     "data.sampling",
                                                     "data.train.augment",
                                                     "optimizer.",
                                                     "schedule.",
                                                     "train.epochs",
                                                     "train.max_steps",
                                                     "train.batch_size",
                                                     "parallel.replicas"};
  std::vector<std::pair<std::string, std::string>> parameters;
  for (auto& [key, value] : config::leaves(config)) {
    const std::string_view name = key;
    const bool compares = std::ranges::any_of(
        kBegins, [&](std::string_view begin) { return name.starts_with(begin); });
    const bool empty = value.empty() || value == "null" || value == "[]" || value == "\"\"";
    if (!compares || empty || value.size() > kMaxValueBytes) continue;
    parameters.emplace_back(std::move(key), std::move(value));
  }
  return parameters;
}

}  // namespace

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
  hooks.push_back(
      make_metrics_files_hook(config.run.summary_every, output.facts.clock, output.warn));
  if (config.run.tensorboard) {
    hooks.push_back(make_tensorboard_hook({config.run.summary_every, config::to_yaml(config),
                                           list_parameters(config), output.samples, output.warn}));
  }
  if (config.train.early_stop) hooks.push_back(make_early_stop_hook(*config.train.early_stop));
  if (config.train.stop_at) hooks.push_back(make_stop_at_hook(*config.train.stop_at));
  if (output.warn) hooks.push_back(make_divergence_hook(config, output.warn));
  return hooks;
}

}  // namespace trainer::hooks
