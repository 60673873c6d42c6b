// The function at the end of a model, which must not repeat that of the loss.
#pragma once

#include <string>

#include "config/sections/model.h"

namespace trainer::model {

// Returns the error if the last layer applies the function that the loss applies itself: softmax or
// sigmoid before a loss that takes logits. Such a model trains badly without an error. Returns ""
// otherwise. `last` is expanded: see expand_layers.h.
std::string describe_repeated_function(const config::Layer& last, LossKind loss);

// Finds a softmax or sigmoid at the end of the model that the loss repeats, without the shapes of
// samples. Throws ConfigError for it, as build_model() does.
void check_last_layer(const config::Model& model);

}  // namespace trainer::model
