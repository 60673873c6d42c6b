#include "compile/passes.h"

namespace trainer::compile {

Graph inference(Graph graph, const Options&) {
  for (Value& value : graph.values) value.trainable = false;
  std::vector<bool> removed(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (std::holds_alternative<graph::BatchNorm>(graph.nodes[i].op)) {
      removed[use_moving_statistics(graph, static_cast<int>(i))] = true;
    } else if (auto* loss = std::get_if<graph::Loss>(&graph.nodes[i].op)) {
      loss->sample_weight = false;
      loss->target_weight.clear();
      loss->class_weight.clear();  // only training weights classes, as in Keras
    } else if (std::holds_alternative<graph::Dropout>(graph.nodes[i].op)) {
      removed[i] = true;
      replace_uses(graph, graph.nodes[i].outputs[0], graph.nodes[i].inputs[0]);
    }
  }
  remove_nodes(graph, removed);
  return graph;
}

}  // namespace trainer::compile
