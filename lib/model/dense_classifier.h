// Makes the layers of a dense classifier. Internal to model.
#pragma once

#include <cstdint>
#include <vector>

#include "config/sections/layers.h"
#include "config/sections/model.h"

namespace trainer::model {

// Returns the layers of a dense classifier, of which the last has `logits` outputs.
std::vector<config::Layer> dense_classifier_layers(const config::DenseClassifier& classifier,
                                                   std::int64_t logits);

}  // namespace trainer::model
