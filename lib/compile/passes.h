// The passes and what they share. Internal to compile. Each pass is a function graph -> graph in
// the file of its name; compile.cpp has the list.
#pragma once

#include <vector>

#include "compile/compile.h"
#include "graph/graph.h"

namespace trainer::compile {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::Phase;
using graph::Role;
using graph::Value;
using graph::ValueId;

// For prediction: removes the loss and the labels.
Graph remove_loss(Graph graph, const Options& options);
// Excludes the parameters of frozen layers from updates, and makes their batch norm, and that of
// layers with moving_statistics, use the moving statistics.
Graph freeze(Graph graph, const Options& options);
// With weight averages: reads "<parameter>/average" in place of each trained parameter.
Graph read_averages(Graph graph, const Options& options);
// For evaluation: makes no parameter trainable and batch norm use the moving statistics, and
// removes dropout.
Graph inference(Graph graph, const Options& options);
// Moves zero padding into the convolution that is its only reader, or, behind a ReLU, into the max
// pooling that is.
Graph fold_padding(Graph graph, const Options& options);
// Folds batch norm on constant parameters into the convolution before it, in phase kPrepare.
Graph fold_batch_norm(Graph graph, const Options& options);
// Fuses an activation into the convolution, dense layer or batch norm before it.
Graph fuse_activation(Graph graph, const Options& options);
// Removes the last rows and columns that no later node reads from the outputs of convolutions and
// of the max pooling of the first convolution.
Graph trim(Graph graph, const Options& options);
// Gives activations the type options.activations. The loss stays float32.
Graph precision(Graph graph, const Options& options);
// Gives the logits of a dense layer, output 0, the type float32.
Graph logits_precision(Graph graph, const Options& options);
// Adds the rank of every label among the logits as an output.
Graph class_rank(Graph graph, const Options& options);
// Adds the L2 penalty of all parameters as an output.
Graph penalty(Graph graph, const Options& options);
// Adds the gradient of the loss with respect to every trainable parameter.
Graph differentiate(Graph graph, const Options& options);
// Adds the gradient of a weighted sum of the logits, output 0, with respect to output 1 as the last
// output, and the weights [batch, outputs] as the last input.
Graph differentiate_logits(Graph graph, const Options& options);
// Fuses the derivative of an activation into the pooling gradient before it.
Graph fuse_backward(Graph graph, const Options& options);
// Adds one update node for each trainable parameter, with its slots, and the updates of moving
// statistics.
Graph update(Graph graph, const Options& options);
// With options.recompute: makes backward compute activations again instead of keeping them all.
Graph recompute(Graph graph, const Options& options);
// Removes nodes and values that nothing uses. Persistent values stay.
Graph tidy(Graph graph, const Options& options);

// ---- Shared by passes (rewrite.cpp) ----

// Returns whether the node is the max pooling of a convolution whose input depends on inputs of the
// graph alone. A backend may compute the two together. False for -1.
bool is_pool_of_first_convolution(const Graph& graph, int node);
// Makes every node, output and layer that used `from` use `to`.
void replace_uses(Graph& graph, ValueId from, ValueId to);
void remove_nodes(Graph& graph, const std::vector<bool>& removed);
// Returns for each value whether it depends on a trainable parameter.
std::vector<bool> depends_on_trainable(const Graph& graph);
// Returns for each value whether it is `source` or depends on it.
std::vector<bool> depends_on(const Graph& graph, ValueId source);
// Makes batch norm `node` use the moving statistics. Returns the node that updated them, which the
// caller has to remove.
int use_moving_statistics(Graph& graph, int node);

// Returns the layer of a parameter: "dense" for "dense/kernel".
inline std::string layer_name(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('/'));
}

}  // namespace trainer::compile
