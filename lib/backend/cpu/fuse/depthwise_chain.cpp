// Depthwise convolutions between two batch norms:
//   x -> norm before -> z -> convolution -> y -> norm after -> w
// No instruction writes z or the gradient of y. The convolution computes their rows where it needs
// them, and sums its results for both norms while they are in the L1 cache.
#include <algorithm>
#include <map>

#include "backend/cpu/fuse/groups.h"
#include "backend/cpu/lowering.h"
#include "backend/cpu/ops/norm_parts.h"
#include "backend/fuse/pattern.h"

namespace trainer::backend::cpu {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

bool fits(const graph::Window& window, std::int64_t groups, const Shape& kernel) {
  const auto& stride = window.stride;
  const auto all_at_least_0 = [](const std::array<std::int64_t, 2>& pad) {
    return pad[0] >= 0 && pad[1] >= 0;
  };
  return window.size == std::array<std::int64_t, 2>{3, 3} &&
         window.dilation == std::array<std::int64_t, 2>{1, 1} && stride[0] == stride[1] &&
         (stride[0] == 1 || stride[0] == 2) && all_at_least_0(window.pad_before) &&
         all_at_least_0(window.pad_after) && groups > 1 && kernel[2] == 1 && kernel[3] == groups;
}

bool is_depthwise(const Graph& graph, const Node& node) {
  const auto* conv = std::get_if<graph::Conv>(&node.op);
  return conv != nullptr && !conv->bias && conv->activation.linear() &&
         fits(conv->window, conv->groups, graph[node.inputs[1]].shape);
}

// True if dy is the dx of a batch norm whose gradient can leave dx to its readers. They compute the
// norm's output again for its activation, so that the forward node must exist.
bool can_leave_gradient(const Graph& graph, ValueId dy) {
  const auto* norm = made_by<graph::BatchNormBackward>(graph, dy);
  if (norm == nullptr || is_output(graph, dy) || !is_fusable(norm->activation)) return false;
  const Node& after = graph.nodes[graph.producer(dy)];
  if (after.outputs[0] != dy) return false;
  return norm->activation.linear() || find_forward(graph, after) != nullptr;
}

// The backward nodes of a convolution between two batch norms.
struct BackwardChain {
  ValueId z = graph::kNoValue;
  int data = -1, weights = -1, norm_after = -1, norm_before = -1;
};

// The chain of node `data`, the gradient of an image.
std::optional<BackwardChain> backward_chain(const Graph& graph, int data) {
  const Node& node = graph.nodes[data];
  const auto* op = std::get_if<graph::ConvBackwardData>(&node.op);
  if (op == nullptr || !fits(op->window, op->groups, graph[node.inputs[1]].shape))
    return std::nullopt;
  const ValueId dy = node.inputs[0], dz = node.outputs[0];
  if (!can_leave_gradient(graph, dy) || is_output(graph, dz)) return std::nullopt;

  const std::vector<int> readers = graph.consumers(dy), next = graph.consumers(dz);
  if (readers.size() != 2 || next.size() != 1 || readers[0] != data) return std::nullopt;
  const Node& weights = graph.nodes[readers[1]];
  const auto* of_weights = std::get_if<graph::ConvBackwardWeights>(&weights.op);
  if (of_weights == nullptr || of_weights->bias || weights.inputs[1] != dy ||
      of_weights->window != op->window || of_weights->groups != op->groups) {
    return std::nullopt;
  }
  const Node& before = graph.nodes[next[0]];
  if (!std::holds_alternative<graph::BatchNormBackward>(before.op) || before.inputs.size() != 6 ||
      before.inputs[1] != dz || before.inputs[5] != weights.inputs[0]) {
    return std::nullopt;
  }
  // A recomputed activation may be made only after `data`.
  if (graph.producer(weights.inputs[0]) > data) return std::nullopt;
  return BackwardChain{weights.inputs[0], data, readers[1], graph.producer(dy), next[0]};
}

std::vector<BackwardChain> backward_chains(const Graph& graph) {
  std::vector<BackwardChain> chains;
  for (int i = 0; i < std::ssize(graph.nodes); ++i) {
    if (const auto chain = backward_chain(graph, i)) chains.push_back(*chain);
  }
  return chains;
}

// True if all readers of a norm's output z are depthwise convolutions, or nodes of backward chains
// with this z, which are in `reads_in_chain`.
bool can_leave_output(const Graph& graph, const Node& norm,
                      const std::map<int, ValueId>& reads_in_chain, const Machine& machine) {
  const auto* op = std::get_if<graph::BatchNorm>(&norm.op);
  if (op == nullptr || op->activation.linear() || !is_fusable(op->activation)) return false;
  const ValueId z = norm.outputs[0];
  if (graph[z].shape.rank() != 4 || is_output(graph, z)) return false;
  if (!machine.keeps_threads_busy(graph[z].shape[3])) return false;
  const std::vector<int> readers = graph.consumers(z);
  return !readers.empty() && std::ranges::all_of(readers, [&](int reader) {
    const Node& at = graph.nodes[reader];
    const auto found = reads_in_chain.find(reader);
    if (found == reads_in_chain.end()) return is_depthwise(graph, at);
    return found->second == z && (!std::holds_alternative<graph::BatchNormBackward>(at.op) ||
                                  at.inputs[0] == norm.inputs[0]);
  });
}

// The convolution takes the moments of its output for the norms that read it.
void take_convolution(Grouping& grouping, int conv, const UnwrittenNorm& input) {
  const Graph& graph = grouping.graph();
  const Node& node = graph.nodes[conv];
  const DepthwiseChain chain{&node, input, grouping.new_extra()};
  grouping.take({conv}, conv, chain);
  for (const int reader : graph.consumers(node.outputs[0])) {
    if (!std::holds_alternative<graph::BatchNorm>(graph.nodes[reader].op)) continue;
    grouping.change<PartialNorm>(reader).moments = chain.moments;
  }
}

void take_backward(Grouping& grouping, const BackwardChain& chain, const UnwrittenNorm& input) {
  const Graph& graph = grouping.graph();
  auto& after = grouping.change<PartialNormBackward>(chain.norm_after);
  after.coefficients = grouping.new_extra();
  // The instruction that takes the sums of `after` also multiplies by the derivative of its
  // activation.
  const auto activation = after.sums == kNoExtra
                              ? std::get<graph::BatchNormBackward>(after.node->op).activation
                              : graph::Activation{};
  const ExtraId sums = grouping.new_extra();
  grouping.take({chain.data, chain.weights}, chain.data,
                DepthwiseChainBackward{&graph.nodes[chain.data], &graph.nodes[chain.weights], input,
                                       after.node, after.coefficients, activation, sums});
  grouping.change<PartialNormBackward>(chain.norm_before).sums = sums;
}

}  // namespace

void fuse_depthwise_chains(Grouping& grouping, const Machine& machine) {
  const Graph& graph = grouping.graph();
  const std::vector<BackwardChain> chains = backward_chains(graph);
  std::map<int, ValueId> reads_in_chain;  // node of a chain -> the z that it can compute itself
  for (const BackwardChain& chain : chains) {
    reads_in_chain[chain.weights] = reads_in_chain[chain.norm_before] = chain.z;
  }
  std::map<ValueId, UnwrittenNorm> unwritten;
  for (int i = 0; i < std::ssize(graph.nodes); ++i) {
    const Node& norm = graph.nodes[i];
    if (!can_leave_output(graph, norm, reads_in_chain, machine)) continue;
    const ValueId z = norm.outputs[0];
    unwritten[z] = grouping.leave_output(i);
    for (const int reader : graph.consumers(z)) {
      if (!reads_in_chain.contains(reader)) take_convolution(grouping, reader, unwritten[z]);
    }
  }
  // Chains are taken in the order of backward: take_backward() reads the `sums` that the chain
  // before it sets in the norm between them.
  for (const BackwardChain& chain : chains) {
    if (unwritten.contains(chain.z)) take_backward(grouping, chain, unwritten[chain.z]);
  }
}

}  // namespace trainer::backend::cpu
