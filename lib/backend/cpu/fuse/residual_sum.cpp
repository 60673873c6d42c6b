// The end of a residual block: the sum of a batch norm's output and another value, which may also
// be the output of a norm, and the activation of the sum.
#include "backend/cpu/fuse/groups.h"
#include "backend/cpu/ops/fused_activation.h"
#include "backend/fuse/pattern.h"

namespace trainer::backend::cpu {
namespace {

using graph::ValueId;

// True if the value is the output of a norm of images that has no activation, and only the sum
// reads it.
bool can_leave_output(const graph::Graph& graph, ValueId z) {
  if (!only_consumer(graph, z) || graph[z].shape.rank() != 4) return false;
  if (const auto* norm = made_by<graph::BatchNorm>(graph, z)) return norm->activation.linear();
  const auto* norm = made_by<graph::BatchNormInference>(graph, z);
  return norm != nullptr && norm->activation.linear();
}

}  // namespace

void fuse_residual_sums(Grouping& grouping) {
  const graph::Graph& graph = grouping.graph();
  for (int i = 0; i < std::ssize(graph.nodes); ++i) {
    const graph::Node& add = graph.nodes[i];
    if (!std::holds_alternative<graph::Add>(add.op) || add.inputs.size() != 2) continue;
    ValueId z = add.inputs[0], other = add.inputs[1];
    if (!can_leave_output(graph, z)) std::swap(z, other);
    if (!can_leave_output(graph, z)) continue;
    ResidualSum sum;
    sum.norm = grouping.leave_output(graph.producer(z));
    if (can_leave_output(graph, other)) {
      sum.other_norm = grouping.leave_output(graph.producer(other));
    } else {
      sum.addend = other;
    }
    std::vector<int> nodes{i};
    if (const auto next = only_consumer(graph, add.outputs[0])) {
      const auto* activate = std::get_if<graph::Activate>(&graph.nodes[*next].op);
      if (activate != nullptr && is_fusable(activate->activation)) {
        sum.activation = activate->activation;
        nodes.push_back(*next);
      }
    }
    sum.node = &graph.nodes[nodes.back()];
    grouping.take(nodes, nodes.back(), sum);
  }
}

}  // namespace trainer::backend::cpu
