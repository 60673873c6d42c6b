// Converts weights of torchvision. Internal to model.
#pragma once

#include <vector>

#include "checkpoint/tensor_file.h"
#include "config/sections/model.h"

namespace trainer::model {

// Renames torchvision's tensors to Keras's names and transposes them. Returns other files
// unchanged.
std::vector<checkpoint::Tensor> from_torchvision(config::Backbone::Name backbone,
                                                 std::vector<checkpoint::Tensor> file);

}  // namespace trainer::model
