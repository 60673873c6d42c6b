#include "base/glob.h"
#include "optim/optim.h"

namespace trainer::optim {

graph::Graph scale_learning_rates(graph::Graph model, const config::Optimizer& optimizer) {
  std::vector<Diagnostic> errors;
  for (const config::LearningRateMultiplier& multiplier : optimizer.learning_rate_multiplier) {
    bool any = false;
    for (const graph::LayerInfo& layer : model.layers) {
      if (layer.parameters.empty() || !matches(multiplier.match, layer.name)) continue;
      any = true;
      for (const graph::ValueId id : layer.parameters) {
        model[id].learning_rate_multiplier = static_cast<float>(multiplier.value);
      }
    }
    if (any) continue;
    errors.push_back({multiplier.loc, concat("optimizer.learning_rate_multiplier: no layer with "
                                             "parameters is named '",
                                             multiplier.match, "'; trainer plan lists them")});
  }
  if (!errors.empty()) throw ConfigError(std::move(errors));
  return model;
}

}  // namespace trainer::optim
