// Lookups in a graph that the patterns of several backends share.
#pragma once

#include <algorithm>
#include <optional>

#include "graph/graph.h"

namespace trainer::backend {

inline bool is_output(const graph::Graph& graph, graph::ValueId id) {
  return std::ranges::find(graph.outputs, id) != graph.outputs.end();
}

// Returns the only node that reads the value; empty if several nodes read it or it is an output of
// the graph.
inline std::optional<int> only_consumer(const graph::Graph& graph, graph::ValueId id) {
  if (is_output(graph, id)) return std::nullopt;
  const std::vector<int> consumers = graph.consumers(id);
  if (consumers.size() != 1) return std::nullopt;
  return consumers[0];
}

// Returns the op of the node that makes the value, if it is an Op; null otherwise.
template <class Op>
const Op* made_by(const graph::Graph& graph, graph::ValueId id) {
  const int producer = graph.producer(id);
  return producer < 0 ? nullptr : std::get_if<Op>(&graph.nodes[producer].op);
}

// Returns whether all inputs of `node` exist when node `at` has run.
inline bool inputs_exist_at(const graph::Graph& graph, const graph::Node& node, int at) {
  return std::ranges::all_of(node.inputs,
                             [&](graph::ValueId id) { return graph.producer(id) <= at; });
}

}  // namespace trainer::backend
