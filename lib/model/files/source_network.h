// The layers of the network that a backbone stands for. Internal to model.
#pragma once

#include <string>
#include <vector>

#include "config/sections/model.h"

namespace trainer::model {

// Returns the layers of unused tensors of a weight file that show that the file is of another
// network: a deeper one of the same family ("conv4_block7_1_conv" for ResNet50), or one with more
// layers in a block. The classifier and layers with other names are not among them.
std::vector<std::string> find_foreign_layers(const config::Backbone& backbone,
                                             const std::vector<std::string>& unused);

}  // namespace trainer::model
