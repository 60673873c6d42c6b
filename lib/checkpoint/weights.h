// Reads pretrained weights in the file formats of other programs.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/tensor_file.h"

namespace trainer::checkpoint {

// Returns all tensors of a weight file but its optimizer state. The content decides the format:
// Keras .h5 (the layout of keras.applications, or of a whole saved model), Keras 3 .weights.h5 and
// .keras, safetensors, npz. Throws DataError.
//
// Names of Keras's weights are "<layer>/<weight>" without ":0". Files .weights.h5 have numbers in
// place of the names of weights: "<layer>/0".
//
// With kShapes, tensors have no values.
//
// `classes`, unless null, becomes the names of the classes in the order of the last layer's
// outputs, printable; empty if the file has none. Checkpoints and exports of this program have
// them.
std::vector<Tensor> read_weights(const Path& path, std::vector<std::string>* classes = nullptr,
                                 Content content = Content::kAll);

// Returns the command that saves a state dict of PyTorch, a pickle, in a form that is read.
std::string conversion_command(const Path& pickle);

// Write and read class names, in the order of the outputs of the last layer, as metadata. The names
// that are read are printable; there are none if the metadata has no entry.
void add_classes(const std::vector<std::string>& classes, Metadata& metadata);
std::vector<std::string> read_classes(const Metadata& metadata);

}  // namespace trainer::checkpoint
