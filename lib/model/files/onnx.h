// Exports a trained model to ONNX.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/choices.h"
#include "base/files/files.h"
#include "checkpoint/tensor_file.h"
#include "graph/graph.h"

namespace trainer::model {

using OnnxMetadata = std::vector<std::pair<std::string, std::string>>;  // keys and values

struct OnnxOptions {
  DType input = DType::kFloat32;  // or kUInt8
  double temperature = 1;         // the logits are divided by it
  // Set: the output is "probabilities", a number per class by this loss, in place of "logits".
  std::optional<LossKind> probabilities_of = {};
  OnnxMetadata metadata = {};  // the file's metadata_props
};

// Writes ONNX, opset 13. The input is "images" [batch, height, width, channels] with the values of
// the data set before normalisation. Throws ConfigError for a layer that ONNX cannot express, and
// for probabilities of mean_squared_error.
void export_onnx(const graph::Graph& graph, const std::vector<checkpoint::Tensor>& tensors,
                 const OnnxOptions& options, const Path& path);

}  // namespace trainer::model
