// The names of a graph's ops, for tests of passes.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace trainer::compile {

// "conv pool ..." of all nodes, or of those of one phase.
inline std::string ops(const graph::Graph& graph, std::optional<graph::Phase> phase = {}) {
  std::string names;
  for (const graph::Node& node : graph.nodes) {
    if (phase && node.phase != *phase) continue;
    if (!names.empty()) names += ' ';
    names += graph::name_of(node.op);
  }
  return names;
}

}  // namespace trainer::compile
