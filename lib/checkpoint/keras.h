// Internal to checkpoint.
#pragma once

#include <span>

#include "checkpoint/checkpoint.h"

namespace trainer::checkpoint {

// The tensors of an HDF5 file of Keras's, in memory. `source` is used in messages.
std::vector<Tensor> read_keras_h5(const std::string& source, std::span<const std::uint8_t> content);

}  // namespace trainer::checkpoint
