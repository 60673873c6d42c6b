#include "compile/passes.h"

namespace trainer::compile {
namespace {

using graph::Activation;

// Returns the activation field of an op that an activation can be fused into, else null.
Activation* fusable(graph::Op& op) {
  if (auto* conv = std::get_if<graph::Conv>(&op)) return &conv->activation;
  if (auto* dense = std::get_if<graph::Dense>(&op)) return &dense->activation;
  if (auto* norm = std::get_if<graph::BatchNorm>(&op)) return &norm->activation;
  if (auto* norm = std::get_if<graph::BatchNormInference>(&op)) return &norm->activation;
  return nullptr;
}

}  // namespace

Graph fuse_activation(Graph graph, const Options&) {
  const std::vector<bool> differentiated = depends_on_trainable(graph);
  std::vector<bool> removed(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto* activate = std::get_if<graph::Activate>(&node.op);
    if (activate == nullptr) continue;
    const ValueId x = node.inputs[0];
    if (!activate->activation.fusable()) continue;
    const int before = graph.producer(x);
    if (before < 0) continue;
    Node& target = graph.nodes[before];
    Activation* activation = fusable(target.op);
    if (activation == nullptr || !activation->linear() || !only_consumer(graph, x)) continue;
    // The gradient of a fused activation is computed from the output alone.
    if (differentiated[x] && !activate->activation.differentiable_from_output()) continue;
    *activation = activate->activation;
    const ValueId y = node.outputs[0];
    replace_uses(graph, x, y);
    target.outputs[0] = y;
    removed[i] = true;
  }
  remove_nodes(graph, removed);
  return graph;
}

}  // namespace trainer::compile
