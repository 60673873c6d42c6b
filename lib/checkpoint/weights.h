// Reads pretrained weights in the file formats of other programs.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/tensor_file.h"

namespace trainer::checkpoint {

struct WeightFile {
  std::vector<Tensor> tensors;
  // The names of the classes in the order of the last layer's outputs, printable; empty if the file
  // has none. Checkpoints and exports of this program have them.
  std::vector<std::string> classes;
  std::vector<std::string> notes;  // what the reader chose or left out, for the user
};

struct WeightOptions {
  std::string entry;  // selects a state dict of a PyTorch checkpoint; see read_pytorch()
  Content content = Content::kAll;
};

// Reads all tensors of a weight file but its optimizer state. The content decides the format: Keras
// .h5 (the layout of keras.applications, or of a whole saved model), Keras 3 .weights.h5 and
// .keras, safetensors, npz, PyTorch .pth. Throws DataError.
//
// Names of Keras's weights are "<layer>/<weight>" without ":0". Files .weights.h5 have numbers in
// place of the names of weights: "<layer>/0".
WeightFile read_weights(const Path& path, const WeightOptions& options = {});

// Write and read class names, in the order of the outputs of the last layer, as metadata. The names
// that are read are printable; there are none if the metadata has no entry.
void add_classes(const std::vector<std::string>& classes, Metadata& metadata);
std::vector<std::string> read_classes(const Metadata& metadata);

}  // namespace trainer::checkpoint
