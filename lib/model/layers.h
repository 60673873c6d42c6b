// Adds layers to a graph. Internal to model.
#pragma once

#include <optional>

#include "model/layer_site.h"

namespace trainer::model {

// Without `alpha`, uses Keras's default for the function. Softmax is an op of its own, so that the
// result for it is linear.
graph::Activation resolve_activation(ActivationKind function, std::optional<double> alpha = {});

// Adds the nodes and parameters of a layer; returns its output. Throws ConfigError.
graph::ValueId add_layer(const config::LayerKind& layer, LayerSite& site);

}  // namespace trainer::model
