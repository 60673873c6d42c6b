// The outputs of layers as features: a model up to a layer, whose output it gives in place of
// logits, and the layer whose positions heatmaps show.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace trainer::model {

struct FeatureModel {
  graph::Graph graph;  // its logits are the features, [batch, features]; the loss has no meaning
  std::string layer;
  Shape shape;  // the shape of the layer's output, with the batch
};
// Cuts a graph of build_model(), keeping its parameters. An empty `layer` stands for the last layer
// before the last one with weights, which makes the logits. Throws ConfigError if there is no such
// layer.
FeatureModel cut_at_features(const graph::Graph& model, const std::string& layer);

// Puts the output of that default layer behind the logits: the outputs of the graph begin with
// [batch, logits and features].
FeatureModel append_features(const graph::Graph& model);

// The patches of an image that are the last tokens of a value [batch, tokens, channels].
struct TokenGrid {
  std::int64_t height = 0, width = 0;
  std::int64_t before = 0;  // the tokens before them
};
// Returns the grid of tokens; nothing for other values and for tokens of no image.
std::optional<TokenGrid> find_token_grid(const graph::Graph& graph, graph::ValueId tokens);

// Returns the layer whose output shows where the model sees a class: the last one before the logits
// that depends on parameters and gives images of several positions, or tokens of patches that a
// later attention reads; or the layer of this name. Throws ConfigError if there is no such layer or
// its output has no positions.
const graph::LayerInfo& find_feature_map(const graph::Graph& model, const std::string& layer);

}  // namespace trainer::model
