// Convolutions are [out, in, kh, kw] in PyTorch and [kh, kw, in, out] here; linear layers [out, in]
// and [in, out]. A linear layer after a flattened image reads channels x height x width there and
// height x width x channels here.
#include "model/files/pytorch.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

namespace trainer::model {
namespace {

using checkpoint::Tensor;
using Layers = std::map<std::string, const graph::LayerInfo*>;

// Turns [out, channels, pixels] into [pixels, channels, out], and sets the shape. A tensor without
// values gets the shape alone.
void transpose(Tensor& tensor, std::int64_t pixels, Shape shape) {
  const std::int64_t out = tensor.shape[0];
  const std::int64_t channels = out == 0 ? 0 : tensor.shape.elements() / out / pixels;
  std::vector<float> values(tensor.values.size());
  for (std::int64_t o = 0; !values.empty() && o < out; ++o) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        values[(p * channels + c) * out + o] = tensor.values[(o * channels + c) * pixels + p];
      }
    }
  }
  tensor.values = std::move(values);
  tensor.shape = std::move(shape);
}

// Returns the number of pixels of the image whose flattened values the layer reads; 1 for other
// inputs.
std::int64_t count_flattened_pixels(const graph::Graph& graph, const Layers& layers,
                                    const graph::LayerInfo& layer) {
  const graph::LayerInfo* above = &layer;
  bool is_flattened = false;
  while (above->inputs.size() == 1 && layers.contains(above->inputs.front())) {
    above = layers.at(above->inputs.front());
    const Shape& shape = graph[above->output].shape;
    if (shape.rank() == 4) return is_flattened ? shape[1] * shape[2] : 1;
    is_flattened = above->kind == "Flatten";
    if (!is_flattened && above->kind != "Dropout" && above->kind != "Activation") return 1;
  }
  return 1;
}

bool is_norm(const graph::LayerInfo& layer) { return layer.kind.ends_with("Normalization"); }

// Returns our name of a weight of PyTorch; "" if the layer has none of it.
std::string rename(const graph::LayerInfo& layer, std::string_view weight) {
  if (weight == "weight") {
    if (layer.kind == "DepthwiseConv2D") return layer.name + "/depthwise_kernel";
    return layer.name + (is_norm(layer) ? "/gamma" : "/kernel");
  }
  if (weight == "bias") return layer.name + (is_norm(layer) ? "/beta" : "/bias");
  if (weight == "running_mean") return layer.name + "/moving_mean";
  if (weight == "running_var") return layer.name + "/moving_variance";
  return "";
}

bool is_convertible(const graph::LayerInfo& layer) {
  return layer.kind == "Conv2D" || layer.kind == "DepthwiseConv2D" || layer.kind == "Dense" ||
         is_norm(layer);
}

void convert(const graph::Graph& graph, const Layers& layers, const graph::LayerInfo& layer,
             Tensor& tensor) {
  // A convolution that covers its image is a linear layer of the flattened values.
  if (tensor.shape.rank() == 4 && layer.kind == "Dense") {
    tensor.shape = {tensor.shape[0], tensor.shape[1] * tensor.shape[2] * tensor.shape[3]};
  }
  const Shape shape = tensor.shape;
  if (shape.rank() == 4) {
    transpose(tensor, shape[2] * shape[3], {shape[2], shape[3], shape[1], shape[0]});
  } else if (shape.rank() == 2) {
    const std::int64_t pixels = count_flattened_pixels(graph, layers, layer);
    transpose(tensor, shape[1] % pixels == 0 ? pixels : 1, {shape[1], shape[0]});
  }
}

// Returns whether the tensor of the layer is itself in the module above: "blocks.0.ls1.gamma".
bool is_bare(const graph::LayerInfo& layer) {
  return layer.kind == "LayerScale" || layer.kind == "PrependTokens" ||
         layer.kind == "PositionEmbedding";
}

// timm adds the class token's position to the class token of DINOv2's own files with registers.
void convert_dinov2(std::vector<Tensor>& file) {
  const auto find = [&](std::string_view name) {
    return std::ranges::find(file, name, &Tensor::name);
  };
  const auto registers = find("register_tokens"), token = find("cls_token"),
             positions = find("pos_embed");
  if (registers == file.end() || token == file.end() || positions == file.end()) return;
  registers->name = "reg_token";
  if (positions->shape.rank() != 3 || positions->shape[1] < 1) return;
  const std::int64_t channels = positions->shape[2];
  --positions->shape[1];
  if (std::ssize(positions->values) < channels || std::ssize(token->values) != channels) return;
  for (std::int64_t c = 0; c < channels; ++c) token->values[c] += positions->values[c];
  positions->values.erase(positions->values.begin(), positions->values.begin() + channels);
}

}  // namespace

std::vector<Tensor> from_pytorch(const graph::Graph& graph, std::vector<Tensor> file) {
  Layers layers;
  for (const graph::LayerInfo& layer : graph.layers) layers[layer.name] = &layer;
  std::erase_if(file, [](const Tensor& tensor) {
    return tensor.name.ends_with(".num_batches_tracked") || tensor.name.ends_with("mask_token");
  });
  if (layers.contains("reg_token")) convert_dinov2(file);
  for (Tensor& tensor : file) {
    // torchvision's layer scale is [channels, 1, 1], and tokens are [1, tokens, channels].
    if (const auto bare = layers.find(tensor.name);
        bare != layers.end() && is_bare(*bare->second)) {
      const graph::Value& value = graph[bare->second->parameters.front()];
      tensor.name = value.name;
      const bool has_positions = bare->second->kind == "PositionEmbedding";
      if (!has_positions && tensor.shape.elements() == value.shape.elements()) {
        tensor.shape = value.shape;
      }
      continue;
    }
    const std::size_t dot = tensor.name.rfind('.');
    if (dot == std::string::npos || tensor.name.find('/') != std::string::npos) continue;
    const auto found = layers.find(tensor.name.substr(0, dot));
    if (found == layers.end() || !is_convertible(*found->second)) continue;
    const std::string name = rename(*found->second, std::string_view(tensor.name).substr(dot + 1));
    if (name.empty()) continue;
    tensor.name = name;
    // transformers' global response normalization has [1, 1, 1, channels].
    if (is_norm(*found->second)) tensor.shape = {tensor.shape.elements()};
    convert(graph, layers, *found->second, tensor);
  }
  return file;
}

}  // namespace trainer::model
