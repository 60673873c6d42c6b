#include "model/files/export.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/keras.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"
#include "config/pretrained.h"
#include "model/backbones/backbone.h"
#include "model/files/keras_normalization.h"
#include "model/files/keras_order.h"
#include "model/files/persistent_tensors.h"

namespace trainer::model {
namespace {

using checkpoint::Tensor;

// Returns whether the value is a PReLU slope per image channel, which Keras stores as [1, 1,
// channels].
bool is_shared_slope(const graph::Graph& graph, graph::ValueId id) {
  if (!graph[id].name.ends_with("/alpha") || graph[id].shape.rank() != 1) return false;
  for (const int user : graph.consumers(id)) {
    const graph::Node& node = graph.nodes[user];
    if (graph[node.inputs[0]].shape.rank() == 4) return true;
  }
  return false;
}

// Returns Keras's shape of a parameter, which has the same bytes as ours: [kh, kw, in, multiplier]
// for a depthwise kernel.
Shape keras_shape(const graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph[id];
  if (is_shared_slope(graph, id)) return {1, 1, value.shape[0]};
  if (!value.name.ends_with("/depthwise_kernel")) return value.shape;
  for (const int user : graph.consumers(id)) {
    const auto* conv = std::get_if<graph::Conv>(&graph.nodes[user].op);
    if (conv == nullptr) continue;
    return {value.shape[0], value.shape[1], conv->groups, value.shape[3] / conv->groups};
  }
  return value.shape;
}

// Returns whether the weights of the layer differ from those of Keras, or Keras has no such layer.
bool is_foreign_to_keras(const graph::LayerInfo& layer) {
  constexpr std::array<const char*, 5> kKinds = {"MultiHeadAttention", "TransformerBlock",
                                                 "PatchEmbedding", "PrependTokens",
                                                 "PositionEmbedding"};
  return std::ranges::find(kKinds, layer.kind) != kKinds.end();
}

// Returns the format whose files have this ending; empty for other names.
std::string format_of_name(const Path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".h5" || ending == ".hdf5") return "keras_h5";
  if (ending == ".safetensors" || ending == ".onnx") return ending.substr(1);
  return "";
}

}  // namespace

std::string find_export_format(const std::string& format, const Path& path, bool overwrite) {
  if (path.extension() == ".keras") {
    throw ConfigError({}, concat("--output ", printable(path.string()),
                                 " is named like a whole model of Keras's, which trainer does not "
                                 "write; name its weights FILE.h5 or FILE.weights.h5"));
  }
  const std::string named = format_of_name(path);
  if (format.empty() && named.empty()) {
    throw ConfigError({}, concat("--output ", printable(path.string()),
                                 ": its ending is not that of a format; end it in .onnx, "
                                 ".safetensors or .h5, or give --format"));
  }
  if (format == "timm") {
    if (!named.empty() || is_file(path)) {
      throw ConfigError({}, concat("--output ", printable(path.string()),
                                   ": --format timm writes a folder; give its name"));
    }
    for (const char* file : kTimmFiles) check_output_path("--output", path / file, overwrite);
    return format;
  }
  if (format == "torch" && path.extension() != ".safetensors") {
    throw ConfigError({}, concat("--output ", printable(path.string()),
                                 ": --format torch writes a state dict as safetensors; name it "
                                 "FILE.safetensors"));
  }
  if (!format.empty() && !named.empty() && named != format && format != "torch") {
    throw ConfigError(
        {}, concat("--output ", printable(path.string()), " is named like a file of --format ",
                   named, ", but the format is ", format));
  }
  check_output_path("--output", path, overwrite);
  return format.empty() ? named : format;
}

void export_keras_h5(const graph::Graph& graph, const config::Model& model,
                     const std::vector<Tensor>& tensors, const Path& path,
                     const std::vector<std::string>& classes) {
  const PersistentTensors persistent(graph, tensors);
  std::vector<checkpoint::KerasLayer> layers;
  for (const graph::LayerInfo* info : keras_order(graph)) {
    if (is_foreign_to_keras(*info)) {
      throw ConfigError(info->loc, concat(info->name, ": Keras has no layer ", info->kind,
                                          " with these weights; export to .onnx or .safetensors"));
    }
    checkpoint::KerasLayer layer{info->name, info->kind, {}};
    const KerasPlace place = place_in_keras(info->name);
    if (place.is_dense) layer.kind = "Dense";
    for (const graph::ValueId id : info->parameters) {
      const std::string& name = graph[id].name;
      Tensor tensor{name, keras_shape(graph, id), persistent.at(name).values};
      if (place.is_dense && tensor.shape.rank() == 4) {
        tensor.shape = {tensor.shape[2], tensor.shape[3]};
      }
      layer.weights.emplace_back(name.substr(name.rfind('/') + 1), std::move(tensor));
    }
    if (place.model.empty()) {
      layers.push_back(std::move(layer));
      continue;
    }
    if (layers.back().name != place.model) layers.push_back({place.model, "Sequential", {}});
    layers.back().layers.push_back(std::move(layer));
  }
  if (model.backbone && has_keras_normalization(*model.backbone)) {
    const auto first = keras_preprocessing(graph);
    layers.insert(layers.begin() + 1, first.begin(), first.end());  // after the input
  }
  const bool keras3 = path.string().ends_with(".weights.h5");
  write_keras_h5(path, layers,
                 keras3 ? checkpoint::KerasLayout::kKeras3 : checkpoint::KerasLayout::kApplications,
                 classes);
}

Notice keras_note(const graph::Graph& graph, const config::Model& model) {
  if (!model.backbone || !has_keras_normalization(*model.backbone)) return "";
  const std::string name = config::python_class(*model.backbone);
  return Notice::note(concat("load it into ", name,
                             "(weights=None), whose Normalization layer gets data.preprocess: "
                             "give it ",
                             find_preprocess(graph).reverse_channels ? "BGR" : "RGB",
                             " images of 0 to 255. ", name,
                             "(weights='imagenet') has one more Rescaling layer, and "
                             "would divide by the deviations twice"));
}

void export_safetensors(const graph::Graph& graph, const std::vector<Tensor>& tensors,
                        const Path& path, const std::vector<std::string>& classes,
                        double temperature) {
  const PersistentTensors persistent(graph, tensors);
  std::vector<Tensor> result;
  for (const graph::Value& value : graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    result.push_back({value.name, value.shape, persistent.at(value.name).values});
  }
  checkpoint::Metadata metadata;
  if (!classes.empty()) checkpoint::add_classes(classes, metadata);
  if (temperature != 1) {
    char text[32];
    metadata["temperature"] =
        std::string(text, std::to_chars(text, text + sizeof text, temperature).ptr);
  }
  checkpoint::write_safetensors(path, result, metadata);
}

}  // namespace trainer::model
