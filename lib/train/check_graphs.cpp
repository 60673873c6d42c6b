#include "train/check_graphs.h"

#include "compile/compile.h"
#include "engine/compile_options.h"
#include "optim/optim.h"
#include "train/feature_plan.h"

namespace trainer::train {

void check_training_graphs(const config::Config& config, const std::vector<graph::Graph>& stages) {
  optim::apply_parameter_options(stages.front(), config.optimizer);
  const bool is_ordered = config.parallel.reduction == config::Parallel::Reduction::kOrdered;
  const bool has_features = demands_features(config.train.cache_features);
  if (!is_ordered && !has_features) return;
  compile::Options options;
  options.update = optim::update_spec(config.optimizer).update;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const compile::FrozenSplit split = compile::split_frozen(stages[stage], options);
    const bool is_split = split.reason.empty();
    if (is_ordered) {
      const graph::Graph& rest = is_split ? split.suffix : stages[stage];
      engine::check_no_batch_statistics(compile::training_graph(rest, options));
    }
    if (has_features && stage == 0 && !is_split) reject_features(config, split.reason);
  }
}

}  // namespace trainer::train
