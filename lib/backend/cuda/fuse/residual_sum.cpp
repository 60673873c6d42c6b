// The end of a residual block: a sum, the activation of it, and the batch norm of a term.
#include "backend/cuda/fuse/groups.h"
#include "backend/cuda/fuse/pattern.h"

namespace trainer::backend::cuda {
namespace {

using graph::ValueId;

// True if only nodes after node `at` read the norm's mean and inverse deviation.
bool statistics_are_read_after(const graph::Graph& graph, const graph::Node& norm, int at) {
  for (const ValueId id : {norm.outputs[1], norm.outputs[2]}) {
    for (const int user : graph.consumers(id)) {
      if (user <= at) return false;
    }
  }
  return true;
}

// Returns the term of the sum that is a batch norm's output, is read by nothing else, and can be
// computed in the place of node `at`; of two such terms the later one, and -1 if there is none.
int norm_term(const graph::Graph& graph, const graph::Node& add, int at) {
  int found = -1, latest = -1;
  for (int term = 0; term < 2; ++term) {
    const ValueId z = add.inputs[term];
    const auto* norm = made_by<graph::BatchNorm>(graph, z);
    if (norm == nullptr || !norm->activation.linear() || !only_consumer(graph, z)) continue;
    const graph::Node& node = graph.nodes[graph.producer(z)];
    if (!same_type(graph, node.inputs[0], z)) continue;
    if (!statistics_are_read_after(graph, node, at)) continue;
    if (graph.producer(z) > latest) found = term, latest = graph.producer(z);
  }
  return found;
}

}  // namespace

void fuse_residual_sums(Grouping& grouping) {
  const graph::Graph& graph = grouping.graph();
  for (int i = 0; i < std::ssize(graph.nodes); ++i) {
    const graph::Node& add = graph.nodes[i];
    if (grouping.is_taken(i) || !adds_two(graph, add)) continue;
    std::vector<int> nodes{i};
    const graph::Node* last = &add;
    int at = i;
    graph::Activation activation;
    if (const auto next = only_consumer(graph, add.outputs[0])) {
      const graph::Node& after = graph.nodes[*next];
      const auto* activate = std::get_if<graph::Activate>(&after.op);
      if (activate != nullptr && is_fusable(activate->activation) &&
          same_type(graph, add.outputs[0], after.outputs[0])) {
        activation = activate->activation;
        last = &after;
        at = *next;
        nodes.push_back(at);
      }
    }
    const int term = norm_term(graph, add, at);
    if (term < 0 && last == &add) continue;
    if (term < 0) {
      grouping.take(nodes, at, AddActivate{last, {add.inputs[0], add.inputs[1]}, activation});
      continue;
    }
    const int norm = graph.producer(add.inputs[term]);
    nodes.push_back(norm);
    const ValueId addend = add.inputs[1 - term];
    grouping.take(nodes, at, NormAdd{last, &graph.nodes[norm], addend, activation});
  }
}

}  // namespace trainer::backend::cuda
