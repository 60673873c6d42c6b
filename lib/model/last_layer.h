// The function at the end of a model, which must not repeat that of the loss. Internal to model.
#pragma once

#include <string>

#include "config/sections/model.h"

namespace trainer::model {

// Returns the error if the last layer applies the function that the loss applies itself: softmax or
// sigmoid before a loss that takes logits. Such a model trains badly without an error. Returns ""
// otherwise. `last` is expanded: see expand_layers.h.
std::string describe_repeated_function(const config::Layer& last, LossKind loss);

}  // namespace trainer::model
