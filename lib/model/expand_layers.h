// Expands groups of layers. Internal to model.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/sections/layers.h"

namespace trainer::model {

// The layers of the model, each with its name and at least one input.
struct NamedLayers {
  std::vector<config::Layer> layers;
  std::vector<std::string> names;
};
// Expands groups of layers (repeat, residual) and the batch norm of a convolution. Other layers do
// not change. Adds mistakes in names to `errors`.
NamedLayers expand_layers(const std::vector<config::Layer>& layers,
                          std::vector<Diagnostic>& errors);

}  // namespace trainer::model
