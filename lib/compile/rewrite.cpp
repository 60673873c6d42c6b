#include <algorithm>
#include <stdexcept>
#include <utility>

#include "compile/passes.h"

namespace trainer::compile {
namespace {

// Marks all values that depend on marked ones.
std::vector<bool> spread(const Graph& graph, std::vector<bool> marked) {
  for (const Node& node : graph.nodes) {
    if (std::ranges::none_of(node.inputs, [&](ValueId id) { return marked[id]; })) continue;
    for (const ValueId id : node.outputs) marked[id] = true;
  }
  return marked;
}

}  // namespace

bool is_pool_of_first_convolution(const Graph& graph, int node) {
  if (node < 0) return false;
  const auto* pool = std::get_if<graph::Pool>(&graph.nodes[node].op);
  if (pool == nullptr || pool->kind != graph::Pool::Kind::kMax) return false;
  const int before = graph.producer(graph.nodes[node].inputs[0]);
  return before >= 0 && std::holds_alternative<graph::Conv>(graph.nodes[before].op) &&
         depends_on_inputs_only(graph, graph.nodes[before].inputs[0]);
}

void replace_uses(Graph& graph, ValueId from, ValueId to) {
  for (Node& node : graph.nodes) std::ranges::replace(node.inputs, from, to);
  std::ranges::replace(graph.outputs, from, to);
  for (graph::LayerInfo& layer : graph.layers) {
    if (layer.output == from) layer.output = to;
  }
}

void remove_nodes(Graph& graph, const std::vector<bool>& removed) {
  std::vector<Node> kept;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (i >= removed.size() || !removed[i]) kept.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(kept);
}

std::vector<bool> depends_on_trainable(const Graph& graph) {
  std::vector<bool> depends(graph.values.size(), false);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    depends[i] = graph.values[i].role == Role::kParameter && graph.values[i].trainable;
  }
  return spread(graph, std::move(depends));
}

std::vector<bool> depends_on(const Graph& graph, ValueId source) {
  std::vector<bool> depends(graph.values.size(), false);
  depends[source] = true;
  return spread(graph, std::move(depends));
}

int use_moving_statistics(Graph& graph, int i) {
  const Node& norm = graph.nodes[i];
  const auto& op = std::get<graph::BatchNorm>(norm.op);
  for (const int user : graph.consumers(norm.outputs[1])) {
    const Node& statistics = graph.nodes[user];
    if (!std::holds_alternative<graph::UpdateStatistics>(statistics.op)) continue;
    const ValueId mean = statistics.inputs[0];
    const ValueId variance = statistics.inputs[1];
    Node& changed = graph.nodes[i];
    changed.inputs.push_back(mean);
    changed.inputs.push_back(variance);
    changed.outputs.resize(1);
    changed.op = graph::BatchNormInference{op.epsilon, op.activation};
    return user;
  }
  throw std::logic_error(concat(norm.name, ": batch norm without moving statistics"));
}

}  // namespace trainer::compile
