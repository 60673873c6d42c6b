#include "compile/passes.h"

namespace trainer::compile {

Graph fold_padding(Graph graph, const Options&) {
  std::vector<bool> removed(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto* pad = std::get_if<graph::ZeroPad>(&graph.nodes[i].op);
    if (pad == nullptr) continue;
    const std::optional<int> user = only_consumer(graph, graph.nodes[i].outputs[0]);
    if (!user) continue;
    Node& node = graph.nodes[*user];
    auto* conv = std::get_if<graph::Conv>(&node.op);
    if (conv == nullptr) continue;
    conv->window.pad_before[0] += pad->top;
    conv->window.pad_before[1] += pad->left;
    conv->window.pad_after[0] += pad->bottom;
    conv->window.pad_after[1] += pad->right;
    node.inputs[0] = graph.nodes[i].inputs[0];
    removed[i] = true;
  }
  remove_nodes(graph, removed);
  return graph;
}

}  // namespace trainer::compile
