#include "compile/passes.h"

namespace trainer::compile {

Graph class_rank(Graph graph, const Options&) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Loss* loss = std::get_if<graph::Loss>(&graph.nodes[i].op);
    if (loss == nullptr) continue;
    const float threshold = loss->kind == LossKind::kMeanSquaredError ? 0.5f : 0.0f;
    const Node node = graph.nodes[i];
    graph.outputs.push_back(graph.add1(graph::ClassRank{threshold, loss->sample_weight},
                                       node.inputs, "class_rank", node.loc));
    return graph;
  }
  return graph;
}

}  // namespace trainer::compile
