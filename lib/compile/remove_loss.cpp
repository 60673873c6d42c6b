#include "compile/passes.h"

namespace trainer::compile {

Graph remove_loss(Graph graph, const Options&) {
  std::vector<bool> removed(graph.nodes.size(), false);
  ValueId labels = kNoValue;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!std::holds_alternative<graph::Loss>(graph.nodes[i].op)) continue;
    removed[i] = true;
    labels = graph.nodes[i].inputs[1];
    for (const ValueId id : graph.nodes[i].outputs) std::erase(graph.outputs, id);
  }
  remove_nodes(graph, removed);
  std::erase(graph.inputs, labels);
  return graph;
}

}  // namespace trainer::compile
