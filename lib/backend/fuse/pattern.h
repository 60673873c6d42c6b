// Lookups in a graph that the patterns of several backends share.
#pragma once

#include <algorithm>

#include "graph/graph.h"

namespace trainer::backend {

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
