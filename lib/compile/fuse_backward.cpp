#include "compile/passes.h"

namespace trainer::compile {
namespace {

// The derivative at the pooled output equals that at the winning pixel, because both have the same
// value.
bool derivative_at_pooled(graph::Activation::Kind kind) {
  using Kind = graph::Activation::Kind;
  return kind == Kind::kRelu || kind == Kind::kRelu6 || kind == Kind::kLeakyRelu;
}

}  // namespace

Graph fuse_backward(Graph graph, const Options&) {
  std::vector<bool> removed(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto* backward = std::get_if<graph::PoolBackward>(&node.op);
    if (backward == nullptr || backward->kind != graph::Pool::Kind::kMax) continue;
    const std::optional<int> next = only_consumer(graph, node.outputs[0]);
    if (!next) continue;
    const Node& after = graph.nodes[*next];
    const auto* activate = std::get_if<graph::ActivateBackward>(&after.op);
    if (activate == nullptr || !derivative_at_pooled(activate->activation.kind)) continue;
    const Node& pool = graph.nodes[graph.producer(node.inputs[1])];
    // The activation before a sum has the same gradient value, but its output is not pooled.
    if (after.inputs[0] != pool.inputs[0]) continue;

    const graph::Activation activation = activate->activation;
    const ValueId pooled = pool.outputs[0];
    const ValueId dx = after.outputs[0];
    Node& fused = graph.nodes[i];
    std::get<graph::PoolBackward>(fused.op).activation = activation;
    fused.inputs.push_back(pooled);
    fused.outputs[0] = dx;
    removed[*next] = true;
  }
  remove_nodes(graph, removed);
  return graph;
}

}  // namespace trainer::compile
