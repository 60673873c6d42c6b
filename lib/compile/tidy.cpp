#include <algorithm>

#include "compile/passes.h"

namespace trainer::compile {
namespace {

bool in_place(const Node& node) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (graph::aliased_input(node.op, static_cast<int>(i)) >= 0) return true;
  }
  return false;
}

void remove_unused_nodes(Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  for (const ValueId id : graph.outputs) used[id] = true;
  std::vector<bool> removed(graph.nodes.size(), false);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const bool any = std::ranges::any_of(node.outputs, [&](ValueId id) { return used[id]; });
    removed[i] = !any && !in_place(node);
    if (removed[i]) continue;
    for (const ValueId id : node.inputs) used[id] = true;
  }
  remove_nodes(graph, removed);
}

// Renumbers the values and drops those that no node makes and nothing keeps.
void remove_unused_values(Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  for (std::size_t i = 0; i < used.size(); ++i)
    used[i] = graph::is_persistent(graph.values[i].role);
  for (const ValueId id : graph.inputs) used[id] = true;
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.outputs) used[id] = true;
  }
  std::vector<ValueId> number(graph.values.size(), kNoValue);
  std::vector<Value> values;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    number[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(values);
  const auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) id = number[id];
  };
  for (Node& node : graph.nodes) {
    renumber(node.inputs);
    renumber(node.outputs);
  }
  renumber(graph.inputs);
  renumber(graph.outputs);
  for (graph::LayerInfo& layer : graph.layers) {
    renumber(layer.parameters);
    if (layer.output != kNoValue) layer.output = number[layer.output];
  }
}

}  // namespace

Graph tidy(Graph graph, const Options&) {
  remove_unused_nodes(graph);
  remove_unused_values(graph);
  return graph;
}

}  // namespace trainer::compile
