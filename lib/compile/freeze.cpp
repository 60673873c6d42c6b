#include <set>
#include <string>

#include "compile/passes.h"

namespace trainer::compile {

Graph freeze(Graph graph, const Options&) {
  std::set<std::string> fixed;  // layers whose batch norm uses the moving statistics
  for (const graph::LayerInfo& layer : graph.layers) {
    if (!layer.trainable || layer.moving_statistics) fixed.insert(layer.name);
    if (layer.trainable) continue;
    for (const ValueId id : layer.parameters) graph[id].trainable = false;
  }
  std::vector<bool> removed(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!std::holds_alternative<graph::BatchNorm>(node.op) || !fixed.contains(node.name)) continue;
    removed[use_moving_statistics(graph, static_cast<int>(i))] = true;
  }
  remove_nodes(graph, removed);
  return graph;
}

}  // namespace trainer::compile
