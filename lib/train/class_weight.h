// Reads train.class_weight as a number for each class.
#pragma once

#include <vector>

#include "config/config.h"
#include "data/open.h"

namespace trainer::train {

// Returns the factor for the loss of a sample of each class; empty if the config has no
// class_weight. Throws ConfigError for a class that the data does not have, and for samples without
// classes. The sum of the losses is divided by the number of samples, as in Keras's fit(); PyTorch
// divides by the sum of the weights.
std::vector<float> class_weights(const config::Config& config, const data::Datasets& data);

}  // namespace trainer::train
