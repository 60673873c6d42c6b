// The gradient at the end of a residual block: the sum of the gradients of two uses, times the
// activation's derivative, and the sums of this product that a batch norm's gradient needs.
#include "backend/cpu/fuse/groups.h"
#include "backend/cpu/lowering.h"
#include "backend/cpu/ops/fused_activation.h"
#include "backend/fuse/pattern.h"

namespace trainer::backend::cpu {
namespace {

using graph::ValueId;

// Returns the first gradient of a norm without an activation that reads `dx`, which node `at`
// makes, and whose other inputs exist when `at` runs; -1 if there is none. A recomputed activation
// may not exist yet.
int find_norm(const graph::Graph& graph, ValueId dx, int at) {
  for (const int reader : graph.consumers(dx)) {
    const graph::Node& node = graph.nodes[reader];
    const auto* norm = std::get_if<graph::BatchNormBackward>(&node.op);
    if (norm == nullptr || !norm->activation.linear() || node.inputs[1] != dx) continue;
    if (inputs_exist_at(graph, node, at)) return reader;
  }
  return -1;
}

}  // namespace

void fuse_residual_gradients(Grouping& grouping, const Machine& machine) {
  const graph::Graph& graph = grouping.graph();
  for (int i = 0; i < std::ssize(graph.nodes); ++i) {
    const graph::Node& node = graph.nodes[i];
    const auto* op = std::get_if<graph::ActivateBackward>(&node.op);
    if (op == nullptr || op->activation.linear() || !is_fusable(op->activation)) continue;
    const ValueId dy = node.inputs[1], dx = node.outputs[0];
    if (graph[dx].shape.rank() != 4) continue;
    ResidualGradient gradient{&node, {dy, graph::kNoValue}};
    std::vector<int> nodes{i};
    if (made_by<graph::Add>(graph, dy) != nullptr) {
      const int sum = graph.producer(dy);
      const auto& terms = graph.nodes[sum].inputs;
      if (terms.size() == 2 && only_consumer(graph, dy) && !grouping.is_taken(sum)) {
        gradient.terms[0] = terms[0];
        gradient.terms[1] = terms[1];
        nodes.push_back(sum);
      }
    }
    // The threads divide the sums by blocks of channels.
    const int norm = machine.keeps_threads_busy(graph[dx].shape[3]) ? find_norm(graph, dx, i) : -1;
    if (norm >= 0) {
      gradient.norm = &graph.nodes[norm];
      gradient.sums = grouping.new_extra();
      grouping.change<PartialNormBackward>(norm).sums = gradient.sums;
    }
    if (nodes.size() > 1 || norm >= 0) grouping.take(nodes, i, gradient);
  }
}

}  // namespace trainer::backend::cpu
