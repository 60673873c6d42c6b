// Adds layers to a graph. Internal to model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/layers.h"
#include "graph/graph.h"

namespace trainer::model {

// Without `alpha`, uses Keras's default for the function. Softmax is an op of its own, so that the
// result for it is linear.
graph::Activation resolve_activation(ActivationKind function, std::optional<double> alpha = {});

// The graph to which a layer is added, and the values of the layer.
struct LayerSite {
  graph::Graph& graph;
  graph::LayerInfo& info;              // its parameters are appended
  std::vector<graph::ValueId> inputs;  // one or more
  std::uint64_t seed;
  std::uint32_t& dropouts;  // number of dropout layers so far
  std::string part = {};    // begins the names of the parameters of a layer within this one
};
// Adds the nodes and parameters of a layer; returns its output. Throws ConfigError.
graph::ValueId add_layer(const config::LayerKind& layer, LayerSite& site);

}  // namespace trainer::model
