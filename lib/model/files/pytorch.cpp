// Convolutions are [out, in, kh, kw] in PyTorch and [kh, kw, in, out] here; linear layers [out, in]
// and [in, out]. A linear layer after a flattened image reads channels x height x width there and
// height x width x channels here.
#include "model/files/pytorch.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/pretrained.h"
#include "model/backbones/backbone.h"

namespace trainer::model {
namespace {

using checkpoint::Tensor;
using Layers = std::map<std::string, const graph::LayerInfo*>;

constexpr std::string_view kClassToken = "cls_token";

// Turns [outer, middle, inner] into [inner, middle, outer], and sets the shape. A tensor without
// values gets the shape alone.
void transpose(Tensor& tensor, std::int64_t outer, std::int64_t inner, Shape shape) {
  const std::int64_t ends = outer * inner;
  const std::int64_t middle = ends == 0 ? 0 : tensor.shape.elements() / ends;
  std::vector<float> values(tensor.values.size());
  for (std::int64_t o = 0; !values.empty() && o < outer; ++o) {
    for (std::int64_t m = 0; m < middle; ++m) {
      for (std::int64_t i = 0; i < inner; ++i) {
        values[(i * middle + m) * outer + o] = tensor.values[(o * middle + m) * inner + i];
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

Layers list_layers(const graph::Graph& graph) {
  Layers layers;
  for (const graph::LayerInfo& layer : graph.layers) layers[layer.name] = &layer;
  return layers;
}

bool is_norm(const graph::LayerInfo& layer) { return layer.kind.ends_with("Normalization"); }

// The names of a weight in PyTorch and here.
struct WeightName {
  std::string_view in_pytorch, plain, of_norm;
};
constexpr WeightName kWeightNames[] = {{"weight", "/kernel", "/gamma"},
                                       {"bias", "/bias", "/beta"},
                                       {"running_mean", "", "/moving_mean"},
                                       {"running_var", "", "/moving_variance"}};

// Returns our name of a weight; "" if the layer has none of it.
std::string name_here(const graph::LayerInfo& layer, const WeightName& weight) {
  const std::string_view name = is_norm(layer) ? weight.of_norm : weight.plain;
  if (layer.kind == "DepthwiseConv2D" && name == "/kernel") return layer.name + "/depthwise_kernel";
  return name.empty() ? "" : concat(layer.name, name);
}

// Returns our name of a weight of PyTorch; "" if the layer has none of it.
std::string rename(const graph::LayerInfo& layer, std::string_view weight) {
  const auto* found = std::ranges::find(kWeightNames, weight, &WeightName::in_pytorch);
  return found == std::end(kWeightNames) ? "" : name_here(layer, *found);
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
    transpose(tensor, shape[0], shape[2] * shape[3], {shape[2], shape[3], shape[1], shape[0]});
  } else if (shape.rank() == 2) {
    const std::int64_t pixels = count_flattened_pixels(graph, layers, layer);
    transpose(tensor, shape[0], shape[1] % pixels == 0 ? pixels : 1, {shape[1], shape[0]});
  }
}

// Returns whether the tensor of the layer is itself in the module above: "blocks.0.ls1.gamma".
bool is_bare(const graph::LayerInfo& layer) {
  return layer.kind == "LayerScale" || layer.kind == "PrependTokens" ||
         layer.kind == "PositionEmbedding";
}

// Gives a kernel the layout of the library. `is_reshaped`: see Network::reshaped.
void restore_kernel(const graph::Graph& graph, const Layers& layers, const graph::LayerInfo& layer,
                    bool is_reshaped, Tensor& tensor) {
  const Shape shape = tensor.shape;
  const std::int64_t in = shape[shape.rank() - 2], out = shape[shape.rank() - 1];
  if (shape.rank() == 4) {
    transpose(tensor, shape[0] * shape[1], out, {out, in, shape[0], shape[1]});
    if (is_reshaped) tensor.shape = {out, in};
    return;
  }
  const std::int64_t pixels = count_flattened_pixels(graph, layers, layer);
  transpose(tensor, pixels, out, {out, in});
  if (!is_reshaped) return;
  const std::int64_t side = pixels == 1 ? 1 : kVggSide;
  tensor.shape = {out, in / (side * side), side, side};
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
  const Layers layers = list_layers(graph);
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

std::vector<Tensor> to_pytorch(const graph::Graph& graph, const config::Backbone& backbone,
                               std::vector<Tensor> tensors) {
  using Variant = config::Backbone::Variant;
  const Variant variant = config::find_variant(backbone);
  const std::vector<std::string> reshaped = build_backbone(backbone, {224, 224}, 1).reshaped;
  const Layers layers = list_layers(graph);
  std::vector<Tensor> state;
  std::string tokens;  // the name of the layer of the class token
  for (const graph::LayerInfo& layer : graph.layers) {
    if (layer.kind == "PrependTokens" && tokens.empty()) tokens = layer.name;
    if (layer.kind != "BatchNormalization") continue;
    state.push_back({layer.name + ".num_batches_tracked", {}, {0}, true});
  }
  for (Tensor& tensor : tensors) {
    const std::string name = tensor.name.substr(0, tensor.name.rfind('/'));
    const graph::LayerInfo& layer = *layers.at(name);
    const std::int64_t size = tensor.shape[tensor.shape.rank() - 1];
    if (is_bare(layer)) {
      tensor.name = name;
      if (layer.kind != "LayerScale") tensor.shape = {1, tensor.shape[0], size};
      if (layer.kind == "LayerScale" && variant == Variant::kTorchvision)
        tensor.shape = {size, 1, 1};
      state.push_back(std::move(tensor));
      continue;
    }
    const auto* weight = std::ranges::find_if(
        kWeightNames, [&](const WeightName& row) { return name_here(layer, row) == tensor.name; });
    tensor.name = concat(name, '.', weight->in_pytorch);
    if (tensor.shape.rank() > 1) {
      const bool is_reshaped = std::ranges::find(reshaped, name) != reshaped.end();
      restore_kernel(graph, layers, layer, is_reshaped, tensor);
    } else if (layer.kind == "GlobalResponseNormalization" && variant == Variant::kTransformers) {
      tensor.shape = {1, 1, 1, size};
    }
    state.push_back(std::move(tensor));
  }
  if (tokens.ends_with(kClassToken) && tokens.starts_with("dinov2")) {
    const std::int64_t channels = graph[layers.at(tokens)->parameters.front()].shape[1];
    tokens.replace(tokens.size() - kClassToken.size(), kClassToken.size(), "mask_token");
    state.push_back({tokens, {1, channels}, std::vector<float>(channels)});
  }
  return state;
}

}  // namespace trainer::model
