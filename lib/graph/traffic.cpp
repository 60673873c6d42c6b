#include "graph/traffic.h"

namespace trainer::graph {

double count_bytes(const Graph& graph, ValueId id, double samples) {
  const Value& value = graph[id];
  return static_cast<double>(value.shape.elements()) * (value.shape.batched() ? samples : 1) *
         static_cast<double>(size_of(value.type));
}

double traffic(const Graph& graph, const Node& node, double samples) {
  if (std::holds_alternative<Reshape>(node.op)) return 0;
  double bytes = 0;
  for (const ValueId id : node.inputs) bytes += count_bytes(graph, id, samples);
  for (const ValueId id : node.outputs) bytes += count_bytes(graph, id, samples);
  return bytes;
}

}  // namespace trainer::graph
