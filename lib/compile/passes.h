// The passes and what they share. Internal to compile. Each pass is a function graph -> graph in
// the file of its name; compile.cpp has the list.
#pragma once

#include <optional>
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

// Prediction: removes the loss and the labels.
Graph remove_loss(Graph graph, const Options& options);
// Parameters of frozen layers get no update; their batch norm, and that of layers which ask for it,
// uses the moving statistics.
Graph freeze(Graph graph, const Options& options);
// With weight averages: reads "<parameter>/average" in place of each trained parameter.
Graph read_averages(Graph graph, const Options& options);
// Evaluation: no parameter is trained, batch norm uses the moving statistics, dropout is removed.
Graph inference(Graph graph, const Options& options);
// Moves zero padding into the convolution that is its only reader.
Graph fold_padding(Graph graph, const Options& options);
// Batch norm on constant parameters moves into the convolution before it, once, in phase kPrepare.
Graph fold_batch_norm(Graph graph, const Options& options);
// An activation moves into the convolution, dense layer or batch norm before it.
Graph fuse_activation(Graph graph, const Options& options);
// The first convolution and the max pooling after it become one op, where the backend has it.
Graph fuse_conv_max_pool(Graph graph, const Options& options);
// A convolution before a pooling that drops the last row or column does not compute them, nor the
// pixels that only they would read.
Graph trim(Graph graph, const Options& options);
// Activations take options.activations; the logits of a dense layer and the loss stay float32.
Graph precision(Graph graph, const Options& options);
// The rank of every label among the logits as one more output.
Graph class_rank(Graph graph, const Options& options);
// The L2 penalty of all parameters as one more output.
Graph penalty(Graph graph, const Options& options);
// Adds the gradient of the loss with respect to every trainable parameter.
Graph differentiate(Graph graph, const Options& options);
// The derivative of an activation moves into the pooling gradient before it.
Graph fuse_backward(Graph graph, const Options& options);
// One update node for each trainable parameter, with its slots; moving statistics are updated here
// too.
Graph update(Graph graph, const Options& options);
// With options.recompute: backward computes activations again instead of keeping them all.
Graph recompute(Graph graph, const Options& options);
// Removes nodes and values that nothing uses. Persistent values stay.
Graph tidy(Graph graph, const Options& options);

// ---- Shared by passes (rewrite.cpp) ----

// The only node that uses a value; none when there are more or less, or the graph gives it out.
std::optional<int> only_consumer(const Graph& graph, ValueId id);
// Makes every node, output and layer that used `from` use `to`.
void replace_uses(Graph& graph, ValueId from, ValueId to);
void remove_nodes(Graph& graph, const std::vector<bool>& removed);
// By value: whether a trainable parameter takes part in it.
std::vector<bool> depends_on_trainable(const Graph& graph);
// Batch norm `node` uses the moving statistics from now on. Returns the node that updated them,
// which is to be removed.
int use_moving_statistics(Graph& graph, int node);

// The layer of a parameter: "dense/kernel" -> "dense".
inline std::string layer_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('/'));
}

inline Node& node_at(Graph& graph, int i) { return graph.nodes[static_cast<std::size_t>(i)]; }
inline std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }

}  // namespace trainer::compile
