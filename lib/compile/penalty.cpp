#include "compile/passes.h"

namespace trainer::compile {

Graph penalty(Graph graph, const Options&) {
  std::vector<ValueId> terms;
  const std::size_t count = graph.values.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Value value = graph.values[i];
    if (value.role != Role::kParameter || !value.trainable) continue;
    if (value.l2 <= 0 && value.l1 <= 0) continue;
    terms.push_back(graph.add1(graph::L2Penalty{value.l2, value.l1}, {static_cast<ValueId>(i)},
                               layer_name(value.name), value.loc));
  }
  if (terms.empty()) return graph;
  const SourceLoc loc = graph[terms[0]].loc;
  const ValueId sum =
      terms.size() == 1 ? terms[0] : graph.add1(graph::Add{}, terms, "l2_penalty", loc);
  graph.outputs.push_back(sum);
  return graph;
}

}  // namespace trainer::compile
