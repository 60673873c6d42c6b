// Exports a trained model to ONNX.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/tensor_file.h"
#include "graph/graph.h"

namespace trainer::model {

using OnnxMetadata = std::vector<std::pair<std::string, std::string>>;  // keys and values

// Writes ONNX, opset 13. The input is "images" [batch, height, width, channels], float32 with the
// values of the data set before normalisation, and the output is "logits". `metadata` becomes the
// file's metadata_props. The output is divided by `temperature`. Throws ConfigError for a layer
// that ONNX cannot express.
void export_onnx(const graph::Graph& graph, const std::vector<checkpoint::Tensor>& tensors,
                 const OnnxMetadata& metadata, const Path& path, double temperature = 1);

}  // namespace trainer::model
