// Converts tensors with PyTorch's names. Internal to model.
#pragma once

#include <vector>

#include "checkpoint/tensor_file.h"
#include "graph/graph.h"

namespace trainer::model {

// Renames and transposes the tensors of a state dict whose modules have the names of layers:
// "layer1.0.conv1.weight" becomes "layer1.0.conv1/kernel". Removes num_batches_tracked and
// mask_token, and gives DINOv2's own files the form that timm gives them. Other tensors are
// unchanged.
std::vector<checkpoint::Tensor> from_pytorch(const graph::Graph& graph,
                                             std::vector<checkpoint::Tensor> file);

}  // namespace trainer::model
