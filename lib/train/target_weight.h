// Reads train.class_weight and train.pos_weight of several labels per image.
#pragma once

#include <vector>

#include "config/config.h"
#include "data/open.h"

namespace trainer::train {

// Returns graph::Loss::target_weight: the weights of each label's negatives, then of its positives;
// empty if the config has neither key. A label's terms have its class_weight (PyTorch's
// BCEWithLogitsLoss(weight)), those of positives also its pos_weight. The sum of the losses is
// divided by the number of labels and samples. Throws ConfigError for a label that the data does
// not have, for class_weight: balanced, and for pos_weight: balanced of a label without positives.
std::vector<float> target_weights(const config::Config& config, const data::Datasets& data);

}  // namespace trainer::train
