// A model up to a layer, whose output it gives in place of logits.
#pragma once

#include <string>

#include "graph/graph.h"

namespace trainer::model {

struct FeatureModel {
  graph::Graph graph;  // its logits are the features, [batch, features]; the loss has no meaning
  std::string layer;
  Shape shape;  // of the layer's output, with the batch
};
// Cuts a graph of build_model(), keeping its parameters. An empty `layer` stands for the last layer
// before the last one with weights, which makes the logits. Throws ConfigError if there is no such
// layer.
FeatureModel cut_at_features(const graph::Graph& model, const std::string& layer);

}  // namespace trainer::model
