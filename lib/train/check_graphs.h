// What training asks of the models of a config, for checks before there is a device.
#pragma once

#include <vector>

#include "config/config.h"
#include "graph/graph.h"

namespace trainer::train {

// Checks what the engine and the cache of features ask of the models of all stages: names of layers
// in the keys of the optimizer, no statistics over the batch with ordered sums, and frozen layers
// at the start if the config demands features. Throws ConfigError with the message that training
// gives.
void check_training_graphs(const config::Config& config, const std::vector<graph::Graph>& stages);

}  // namespace trainer::train
