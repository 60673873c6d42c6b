// What the files of model share. Internal.
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

// A name for every layer: its own, or Keras's automatic one. Mistakes are added to `errors`.
std::vector<std::string> layer_names(const std::vector<config::Layer>& layers,
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

// `alpha`: Keras's default of the function's layer when left out. Softmax is an op of its own.
graph::Activation resolve_activation(config::Activation function, std::optional<double> alpha = {});

// The layers that a dense classifier stands for.
std::vector<config::Layer> dense_classifier_layers(const config::DenseClassifier& classifier,
                                                   std::int64_t logits);

// One layer on its way into the graph.
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
