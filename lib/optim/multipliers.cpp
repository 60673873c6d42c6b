#include <algorithm>
#include <cmath>

#include "base/files/glob.h"
#include "optim/optim.h"

namespace trainer::optim {

namespace {

// Computes timm's layer_decay: factor^(number of groups after this one).
void decay_by_depth(graph::Graph& model, double factor) {
  int last = 0;
  for (const graph::LayerInfo& layer : model.layers) last = std::max(last, layer.depth);
  for (const graph::LayerInfo& layer : model.layers) {
    const double scale = std::pow(factor, last - layer.depth);
    for (const graph::ValueId id : layer.parameters) {
      model[id].learning_rate_multiplier *= static_cast<float>(scale);
    }
  }
}

}  // namespace

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
  if (optimizer.layer_decay) decay_by_depth(model, *optimizer.layer_decay);
  return model;
}

graph::Graph exclude_from_weight_decay(graph::Graph model, const config::Optimizer& optimizer) {
  std::vector<Diagnostic> errors;
  for (const config::ParameterPattern& pattern : optimizer.exclude_from_weight_decay) {
    bool any = false;
    for (graph::Value& value : model.values) {
      if (value.role != graph::Role::kParameter || !matches(pattern.text, value.name)) continue;
      any = true;
      value.decay = false;
    }
    if (any) continue;
    errors.push_back({pattern.loc, concat("optimizer.exclude_from_weight_decay: no parameter is "
                                          "named '",
                                          pattern.text,
                                          "'; names are those of layer and weight, such as "
                                          "dense/bias or */gamma")});
  }
  if (!errors.empty()) throw ConfigError(std::move(errors));
  return model;
}

graph::Graph apply_parameter_options(graph::Graph model, const config::Optimizer& optimizer) {
  return exclude_from_weight_decay(scale_learning_rates(std::move(model), optimizer), optimizer);
}

}  // namespace trainer::optim
