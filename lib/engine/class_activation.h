// Class activation maps (Grad-CAM): which positions of a layer's output raise the logit of a class.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/tensor_file.h"
#include "config/config.h"
#include "graph/graph.h"

namespace trainer::engine {

// A number for each position of an image or a feature map, row by row.
struct PositionMap {
  std::int64_t height = 0, width = 0;
  std::vector<float> values;
};

// A model with its variables, in inference form and in float32, compiled for one image per call.
// One thread at a time may call it.
class ClassActivation {
 public:
  // `model` is the forward graph of model::build_model, and `layer` one of its layers with an
  // output [batch, height, width, channels], or tokens of which the last are patches of an image
  // (model::find_token_grid). The backend must outlive this object. Throws
  // ConfigError if the logits do not depend on the layer.
  ClassActivation(const graph::Graph& model, const config::Config& config,
                  const graph::LayerInfo& layer, backend::Backend& backend);

  // Calls load_all(); optimizer slots are ignored.
  void load(const checkpoint::TensorFile& file, const std::string& path);
  backend::Variables& variables() { return *variables_; }

  // Returns the map of an image in host memory, at the positions of the layer: the positive part of
  // the sum over channels of the layer's output times the mean over positions of the gradient of
  // the logit. A class of a model with a single logit for two classes has this logit, or for class
  // 0 its negative.
  PositionMap compute(const void* image, std::int64_t label);

 private:
  bool single_logit_;  // true if one logit stands for two classes
  std::size_t image_bytes_ = 0;
  std::int64_t height_ = 0, width_ = 0, channels_ = 0;  // the output of the layer has these
  std::int64_t before_ = 0;                             // the number of tokens before the patches
  std::unique_ptr<backend::Stream> stream_;
  std::unique_ptr<backend::Variables> variables_;
  std::unique_ptr<backend::Executable> program_;
  // The inputs and outputs of the program beside the image, in host memory.
  std::vector<float> weights_, logits_, activation_, gradient_;
  // Device memory for the image and these vectors; empty for a backend that reads host memory.
  std::vector<backend::Buffer> device_;
};

}  // namespace trainer::engine
