// Questions about a graph that several patterns of this folder ask.
#pragma once

#include <algorithm>
#include <optional>

#include "graph/graph.h"

namespace trainer::backend::cuda {

inline const graph::Node& node_at(const graph::Graph& graph, int node) {
  return graph.nodes[static_cast<std::size_t>(node)];
}

// The only node that reads the value; none where several do, or the caller does.
inline std::optional<int> only_consumer(const graph::Graph& graph, graph::ValueId id) {
  const auto& outputs = graph.outputs;
  if (std::find(outputs.begin(), outputs.end(), id) != outputs.end()) return std::nullopt;
  const std::vector<int> consumers = graph.consumers(id);
  if (consumers.size() != 1) return std::nullopt;
  return consumers[0];
}

// The op of the node that makes the value, if it is an Op; null otherwise.
template <class Op>
const Op* made_by(const graph::Graph& graph, graph::ValueId id) {
  const int producer = graph.producer(id);
  return producer < 0 ? nullptr : std::get_if<Op>(&node_at(graph, producer).op);
}

inline bool same_type(const graph::Graph& graph, graph::ValueId a, graph::ValueId b) {
  return graph[a].type == graph[b].type;
}

// True if the node adds two different values of its output's type.
inline bool adds_two(const graph::Graph& graph, const graph::Node& node) {
  return std::holds_alternative<graph::Add>(node.op) && node.inputs.size() == 2 &&
         node.inputs[0] != node.inputs[1] && same_type(graph, node.inputs[0], node.outputs[0]) &&
         same_type(graph, node.inputs[1], node.outputs[0]);
}

// True if the kernels that activate a sum implement the function.
inline bool is_fusable(const graph::Activation& activation) {
  return activation.fusable() && activation.differentiable_from_output();
}

}  // namespace trainer::backend::cuda
