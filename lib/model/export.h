// A trained model in the files of other programs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/notice.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "graph/graph.h"

namespace trainer::model {

// `graph` is build_model's, `tensors` a checkpoint's: weight averages are used where it has them.
// Throws DataError when a tensor of the model is not among them.

// Throws ConfigError when the name of a file ends as another format's than the one ("keras_h5",
// "safetensors", "onnx") does, or when there is something of that name: a file may be replaced if
// `overwrite`.
void check_export_path(const std::string& format, const Path& path, bool overwrite);

// Keras HDF5: the applications' layout for x.h5, Keras 3's for x.weights.h5. Either loads with
// load_weights into a functional model of the same layers with the same inputs, or a Sequential
// one; the former also by name. The layers that Keras's EfficientNet starts with do what
// data.preprocess does.
void export_keras_h5(const graph::Graph& graph, const config::Model& model,
                     const std::vector<checkpoint::Tensor>& tensors, const Path& path);
// A note on how to load that into Keras, for a model that Keras builds in two ways; "" for others.
Notice keras_note(const graph::Graph& graph, const config::Model& model);
// Parameters and statistics under the model's names, without optimizer state.
void export_safetensors(const graph::Graph& graph, const std::vector<checkpoint::Tensor>& tensors,
                        const Path& path);
// ONNX, opset 13: "images" [batch, height, width, channels], float32 as the data set has them,
// before normalisation, to "logits". `metadata` becomes the file's metadata_props. Throws
// ConfigError for a layer that ONNX cannot express.
using OnnxMetadata = std::vector<std::pair<std::string, std::string>>;  // keys and values
void export_onnx(const graph::Graph& graph, const std::vector<checkpoint::Tensor>& tensors,
                 const OnnxMetadata& metadata, const Path& path);

}  // namespace trainer::model
