// Predicates of nodes and values that the patterns of this folder share.
#pragma once

#include "backend/fuse/pattern.h"

namespace trainer::backend::cuda {

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
