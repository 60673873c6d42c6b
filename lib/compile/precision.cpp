#include "compile/passes.h"

namespace trainer::compile {

Graph precision(Graph graph, const Options& options) {
  if (options.activations == DType::kFloat32) return graph;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward) continue;
    const auto outputs = graph::infer(node.op, list_types(graph, node.inputs), node.name, node.loc);
    for (std::size_t i = 0; i < outputs.size(); ++i) graph[node.outputs[i]].type = outputs[i].type;
    if (std::holds_alternative<graph::Preprocess>(node.op)) {
      graph[node.outputs[0]].type = options.activations;
    }
  }
  return graph;
}

// A dense layer sums in float32 anyway; rounding its result would only cost the loss precision.
Graph logits_precision(Graph graph, const Options&) {
  const ValueId logits = graph.outputs[0];
  for (const Node& node : graph.nodes) {
    const bool is_dense = std::holds_alternative<graph::Dense>(node.op);
    if (is_dense && node.outputs[0] == logits) graph[logits].type = DType::kFloat32;
  }
  return graph;
}

}  // namespace trainer::compile
