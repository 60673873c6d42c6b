// Names layers as Keras does. Internal to model.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/sections/layers.h"

namespace trainer::model {

// Returns the name of every layer: the config's, or Keras's automatic one. Adds to `errors`.
std::vector<std::string> layer_names(const std::vector<config::Layer>& layers,
                                     std::vector<Diagnostic>& errors);

// Returns the end of a message about a layer that does not exist: a guess, or the `known` layers
// that may be meant; of many, the last ones. `which` follows the word "layers".
std::string suggest_layers(const std::string& name, std::vector<std::string> known,
                           const char* which = "");

}  // namespace trainer::model
