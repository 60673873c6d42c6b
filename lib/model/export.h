// A trained model in the files of other programs.
#pragma once

#include <vector>

#include "checkpoint/checkpoint.h"
#include "graph/graph.h"

namespace trainer::model {

// `graph` is build_model's, `tensors` a checkpoint's: weight averages are used where it has them.
// Throws DataError when a tensor of the model is not among them.

// Keras HDF5: the applications' layout for x.h5, Keras 3's for x.weights.h5. Either loads with
// load_weights into a model of the same layers in the same order; the former also by name.
void export_keras_h5(const graph::Graph& graph, const std::vector<checkpoint::Tensor>& tensors,
                     const Path& path);
// Parameters and statistics under the model's names, without optimizer state.
void export_safetensors(const graph::Graph& graph, const std::vector<checkpoint::Tensor>& tensors,
                        const Path& path);
// ONNX, opset 13: "images" [batch, height, width, channels], float32 as the data set has them,
// before normalisation, to "logits". Throws ConfigError for a layer that ONNX cannot express.
void export_onnx(const graph::Graph& graph, const std::vector<checkpoint::Tensor>& tensors,
                 const Path& path);

}  // namespace trainer::model
