// Exports a trained model to the files of other programs.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/notice.h"
#include "checkpoint/tensor_file.h"
#include "config/sections/model.h"
#include "graph/graph.h"

namespace trainer::model {

// In all functions, `graph` comes from build_model() and `tensors` from a checkpoint, whose weight
// averages are used if it has any. They throw DataError if a tensor of the model is missing.

// The files of a folder of timm.
inline constexpr const char* kTimmFiles[] = {"model.safetensors", "config.json"};

// Returns `format` ("keras_h5", "safetensors", "onnx", "torch", "timm"), or that of the ending of
// the file name if `format` is empty. Throws ConfigError for the ending of another format, for an
// unknown ending without a format, and if the path, or a file of a folder of timm, exists, except
// for a file with `overwrite`.
std::string find_export_format(const std::string& format, const Path& path, bool overwrite);

// Writes Keras HDF5: the layout of keras.applications to x.h5, that of Keras 3 to x.weights.h5.
// Both load with load_weights() into a functional model of the same layers with the same inputs, or
// into a Sequential one; the former also loads by name. The layers that Keras's EfficientNet starts
// with get the values of data.preprocess. `classes` are the names in the order of the outputs.
void export_keras_h5(const graph::Graph& graph, const config::Model& model,
                     const std::vector<checkpoint::Tensor>& tensors, const Path& path,
                     const std::vector<std::string>& classes = {});
// Returns a note on how to load the file into Keras, for a model that Keras builds in two ways; ""
// for other models.
Notice keras_note(const graph::Graph& graph, const config::Model& model);
// Writes parameters and statistics under the model's names, without optimizer state, and as
// metadata `classes` and a temperature other than 1, by which the logits have to be divided.
void export_safetensors(const graph::Graph& graph, const std::vector<checkpoint::Tensor>& tensors,
                        const Path& path, const std::vector<std::string>& classes = {},
                        double temperature = 1);

}  // namespace trainer::model
