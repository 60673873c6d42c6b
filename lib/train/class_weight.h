// Reads train.class_weight as a number for each class.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "data/open.h"

namespace trainer::train {

// Returns the factor for the loss of a sample of each class; empty if the config has no
// class_weight. Throws ConfigError for a class that the data does not have, and for samples without
// classes. The sum of the losses is divided by the number of samples, as in Keras's fit(); PyTorch
// divides by the sum of the weights.
std::vector<float> class_weights(const config::Config& config, const data::Datasets& data);

// Returns the weights of a map of names or numbers to weights, 1 for what it does not name. `key`
// names the map in messages. Throws ConfigError for a name that is not among `names`, which have
// numbers in their order.
std::vector<float> named_weights(const config::ClassWeight& wanted, const char* key,
                                 const std::vector<std::string>& names);

// Checks the names of train.class_weight and train.pos_weight against those of data.classes, if the
// config gives them. Throws ConfigError as named_weights() does.
void check_weighted_classes(const config::Config& config);

}  // namespace trainer::train
