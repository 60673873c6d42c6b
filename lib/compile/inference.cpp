#include "compile/passes.h"

namespace trainer::compile {

namespace {

// Evaluations multiply losses by the weights of samples themselves, so that their labels have none.
void drop_sample_weights(Graph& graph, std::size_t node) {
  auto& loss = std::get<graph::Loss>(graph.nodes[node].op);
  const std::int64_t outputs = graph[graph.nodes[node].inputs[0]].shape[1];
  Value& labels = graph[graph.nodes[node].inputs[1]];
  if (loss.sample_weight && labels.type == DType::kFloat32) labels.shape = {kBatch, outputs};
  loss.sample_weight = false;
}

}  // namespace

Graph inference(Graph graph, const Options&) {
  for (Value& value : graph.values) value.trainable = false;
  std::vector<bool> removed(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (std::holds_alternative<graph::BatchNorm>(graph.nodes[i].op)) {
      removed[use_moving_statistics(graph, static_cast<int>(i))] = true;
    } else if (auto* loss = std::get_if<graph::Loss>(&graph.nodes[i].op)) {
      drop_sample_weights(graph, i);
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
