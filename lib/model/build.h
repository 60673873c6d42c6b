// Functions that the files of model share. Internal to model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "graph/graph.h"
#include "model/model.h"

namespace trainer::model {

// Keras's class name of a layer, "Conv2D", and the start of its automatic names, "conv2d".
struct KindNames {
  const char* kind;
  const char* automatic;
};
KindNames names_of(const config::LayerKind& layer);

// The name of every layer: the config's, or Keras's automatic one. Adds mistakes to `errors`.
std::vector<std::string> layer_names(const std::vector<config::Layer>& layers,
                                     std::vector<Diagnostic>& errors);

// The layers of the model, each with its name and at least one input.
struct NamedLayers {
  std::vector<config::Layer> layers;
  std::vector<std::string> names;
};
// Writes out groups of layers (repeat, residual) and the batch norm of a convolution. Other layers
// stay as they are. Adds mistakes in names to `errors`.
NamedLayers expand_layers(const std::vector<config::Layer>& layers,
                          std::vector<Diagnostic>& errors);

// A window over the image `input` with its padding in pixels.
graph::Window resolve_window(const config::Pair& size, const config::Pair& strides,
                             const config::Pair& dilation, const config::Padding& padding,
                             const Shape& input);

// Numbers of inputs and outputs that a weight connects, as Keras counts them.
struct Fans {
  double in = 0, out = 0;
};
graph::Initial resolve_initializer(const config::Initializer& initializer, const Fans& fans);

// `alpha`: Keras's default for the function when left out. Softmax is a separate op.
graph::Activation resolve_activation(config::Activation function, std::optional<double> alpha = {});

// The layers of a dense classifier.
std::vector<config::Layer> dense_classifier_layers(const config::DenseClassifier& classifier,
                                                   std::int64_t logits);

// Where a layer is added: the graph and what belongs to the layer.
struct LayerSite {
  graph::Graph& graph;
  graph::LayerInfo& info;              // its parameters are appended
  std::vector<graph::ValueId> inputs;  // at least one
  std::uint64_t seed;
  std::uint32_t& dropouts;  // so far
};
// Adds the nodes and parameters of a layer; returns its output. Throws ConfigError.
graph::ValueId add_layer(const config::LayerKind& layer, LayerSite& site);

}  // namespace trainer::model
