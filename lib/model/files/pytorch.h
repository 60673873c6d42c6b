// Converts tensors to and from PyTorch's names and layouts. Internal to model.
#pragma once

#include <vector>

#include "checkpoint/tensor_file.h"
#include "config/sections/model.h"
#include "graph/graph.h"

namespace trainer::model {

// Renames and transposes the tensors of a state dict whose modules have the names of layers:
// "layer1.0.conv1.weight" becomes "layer1.0.conv1/kernel". Removes num_batches_tracked and
// mask_token, and gives DINOv2's own files the form that timm gives them. Other tensors are
// unchanged.
std::vector<checkpoint::Tensor> from_pytorch(const graph::Graph& graph,
                                             std::vector<checkpoint::Tensor> file);

inline constexpr std::int64_t kVggSide = 7;

// The reverse: returns the state dict, as the variant's library saves it, of a backbone with its
// classifier. `graph` is that of the backbone, and `tensors` have its names. The tensors that the
// library has beside them are zero: num_batches_tracked and DINOv2's mask_token. Integers come
// first. VGG16 is a model of images with which its classifier reads kVggSide x kVggSide features.
std::vector<checkpoint::Tensor> to_pytorch(const graph::Graph& graph,
                                           const config::Backbone& backbone,
                                           std::vector<checkpoint::Tensor> tensors);

}  // namespace trainer::model
