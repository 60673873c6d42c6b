// Reads pretrained weights in the file formats of other programs.
#pragma once

#include <vector>

#include "base/files.h"
#include "checkpoint/tensor_file.h"

namespace trainer::checkpoint {

// Returns all tensors of a weight file but its optimizer state. The content decides the format:
// Keras .h5 (the layout of keras.applications, or of a whole saved model), Keras 3 .weights.h5 and
// .keras, safetensors, npz. Throws DataError.
//
// Names of Keras's weights are "<layer>/<weight>" without ":0". Files .weights.h5 have numbers in
// place of the names of weights: "<layer>/0".
std::vector<Tensor> read_weights(const Path& path);

}  // namespace trainer::checkpoint
