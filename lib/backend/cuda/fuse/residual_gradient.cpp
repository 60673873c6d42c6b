// The gradient where a residual block ends: the sum of the gradients of two uses, times the
// activation's derivative, and the sums over it that a batch norm's gradient needs.
#include "backend/cuda/fuse/groups.h"
#include "backend/cuda/fuse/pattern.h"

namespace trainer::backend::cuda {
namespace {

using graph::ValueId;

// The terms and the activation of the gradient that a node writes.
struct Gradient {
  std::vector<int> nodes;  // the last one writes it
  ValueId terms[2] = {graph::kNoValue, graph::kNoValue};
  ValueId saved = graph::kNoValue;
  graph::Activation activation;
};

std::optional<Gradient> find_gradient(const Grouping& grouping, int i) {
  const graph::Graph& graph = grouping.graph();
  const graph::Node& node = graph.nodes[i];
  Gradient gradient;
  if (adds_two(graph, node)) {
    gradient.nodes = {i};
    gradient.terms[0] = node.inputs[0];
    gradient.terms[1] = node.inputs[1];
    return gradient;
  }
  const auto* activate = std::get_if<graph::ActivateBackward>(&node.op);
  if (activate == nullptr || !is_fusable(activate->activation)) return std::nullopt;
  const ValueId dx = node.outputs[0], dy = node.inputs[1];
  if (!same_type(graph, node.inputs[0], dx) || !same_type(graph, dy, dx)) return std::nullopt;
  gradient.activation = activate->activation;
  gradient.saved = node.inputs[0];
  gradient.terms[0] = dy;
  const int before = graph.producer(dy);
  if (before >= 0 && !grouping.is_taken(before) && only_consumer(graph, dy) &&
      adds_two(graph, graph.nodes[before])) {
    gradient.nodes.push_back(before);
    gradient.terms[0] = graph.nodes[before].inputs[0];
    gradient.terms[1] = graph.nodes[before].inputs[1];
  }
  gradient.nodes.push_back(i);
  return gradient;
}

// Returns a node that computes a batch norm's gradient from `dy` and whose other operands exist
// when node i runs; -1 if there is none.
int find_norm(const Grouping& grouping, ValueId dy, int i) {
  const graph::Graph& graph = grouping.graph();
  for (const int user : graph.consumers(dy)) {
    const graph::Node& node = graph.nodes[user];
    const auto* norm = std::get_if<graph::BatchNormBackward>(&node.op);
    if (norm == nullptr || !norm->activation.linear() || grouping.is_taken(user)) continue;
    if (node.inputs[1] != dy || !same_type(graph, dy, node.outputs[0])) continue;
    if (!same_type(graph, node.inputs[0], dy)) continue;
    if (inputs_exist_at(graph, node, i)) return user;
  }
  return -1;
}

}  // namespace

void fuse_residual_gradients(Grouping& grouping) {
  const graph::Graph& graph = grouping.graph();
  // From the end, so that a sum is seen after the activation's gradient that takes it.
  for (int i = static_cast<int>(graph.nodes.size()) - 1; i >= 0; --i) {
    const graph::Node& node = graph.nodes[i];
    if (grouping.is_taken(i)) continue;
    std::optional<Gradient> gradient = find_gradient(grouping, i);
    if (!gradient) continue;
    const ValueId* terms = gradient->terms;
    const int norm = find_norm(grouping, node.outputs[0], i);
    if (norm >= 0) {
      gradient->nodes.push_back(norm);
      grouping.take(gradient->nodes, i,
                    GradientNorm{&node,
                                 &graph.nodes[norm],
                                 {terms[0], terms[1]},
                                 gradient->saved,
                                 gradient->activation});
    } else if (gradient->nodes.size() > 1) {
      grouping.take(
          gradient->nodes, i,
          AddActivateBackward{&node, {terms[0], terms[1]}, gradient->saved, gradient->activation});
    }
  }
}

}  // namespace trainer::backend::cuda
