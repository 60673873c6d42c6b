#include "backend/cpu/ops/depthwise_chains.h"

#include <algorithm>

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

const Node* producer(const Graph& graph, ValueId id) {
  const int maker = graph.producer(id);
  return maker < 0 ? nullptr : &graph.nodes[static_cast<std::size_t>(maker)];
}

bool is_output(const Graph& graph, ValueId id) {
  return std::find(graph.outputs.begin(), graph.outputs.end(), id) != graph.outputs.end();
}

bool is_depthwise(const Graph& graph, const Node& node) {
  const auto* conv = std::get_if<graph::Conv>(&node.op);
  return conv != nullptr && !conv->bias && conv->activation.linear() &&
         fits(conv->window, conv->groups, graph[node.inputs[1]].shape);
}

// Whether dy is the dx of a batch norm whose output can be computed again.
bool can_skip_gradient(const Graph& graph, ValueId dy) {
  const Node* after = producer(graph, dy);
  if (after == nullptr || is_output(graph, dy)) return false;
  const auto* norm = std::get_if<graph::BatchNormBackward>(&after->op);
  if (norm == nullptr || after->outputs[0] != dy || !has_gate(norm->activation)) return false;
  return norm->activation.linear() || forward_of(graph, *after) != nullptr;
}

// The backward nodes of a convolution between two batch norms.
struct BackwardChain {
  ValueId dy = graph::kNoValue, z = graph::kNoValue;
  int weights = -1, norm_before = -1;  // nodes
};

// The chain that node `data`, the gradient of an image, is of; without a dy when it is of none.
BackwardChain backward_chain(const Graph& graph, int data) {
  const Node& node = graph.nodes[static_cast<std::size_t>(data)];
  const auto* op = std::get_if<graph::ConvBackwardData>(&node.op);
  if (op == nullptr || !fits(op->window, op->groups, graph[node.inputs[1]].shape)) return {};
  const ValueId dy = node.inputs[0], dz = node.outputs[0];
  if (!can_skip_gradient(graph, dy) || is_output(graph, dz)) return {};

  const std::vector<int> readers = graph.consumers(dy), next = graph.consumers(dz);
  if (readers.size() != 2 || next.size() != 1 || readers[0] != data) return {};
  const Node& weights = graph.nodes[static_cast<std::size_t>(readers[1])];
  const auto* of_weights = std::get_if<graph::ConvBackwardWeights>(&weights.op);
  if (of_weights == nullptr || of_weights->bias || weights.inputs[1] != dy ||
      of_weights->window != op->window || of_weights->groups != op->groups) {
    return {};
  }
  const Node& before = graph.nodes[static_cast<std::size_t>(next[0])];
  if (!std::holds_alternative<graph::BatchNormBackward>(before.op) || before.inputs.size() != 6 ||
      before.inputs[1] != dz || before.inputs[5] != weights.inputs[0]) {
    return {};
  }
  // Activations that are computed again may come too late.
  if (graph.producer(weights.inputs[0]) > data) return {};
  return {dy, weights.inputs[0], readers[1], next[0]};
}

}  // namespace

DepthwiseChains::DepthwiseChains(const Graph& graph, const Machine& machine) {
  std::map<int, ValueId> reads_in_chain;  // node -> the z that it needs not be given
  std::vector<BackwardChain> chains;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const BackwardChain chain = backward_chain(graph, i);
    if (chain.dy == graph::kNoValue) continue;
    chains.push_back(chain);
    reads_in_chain[chain.weights] = reads_in_chain[chain.norm_before] = chain.z;
  }
  for (const Node& node : graph.nodes) {
    const auto* norm = std::get_if<graph::BatchNorm>(&node.op);
    if (norm == nullptr || norm->activation.linear() || !has_gate(norm->activation)) continue;
    const ValueId z = node.outputs[0];
    const std::vector<int> readers = graph.consumers(z);
    const bool all_in_chain = std::all_of(readers.begin(), readers.end(), [&](int reader) {
      const Node& at = graph.nodes[static_cast<std::size_t>(reader)];
      const auto found = reads_in_chain.find(reader);
      if (found == reads_in_chain.end()) return is_depthwise(graph, at);
      return found->second == z && (!std::holds_alternative<graph::BatchNormBackward>(at.op) ||
                                    at.inputs[0] == node.inputs[0]);
    });
    if (graph[z].shape.rank() != 4) continue;
    // A thread takes whole blocks of channels.
    const bool busy = graph[z].shape[3] > (machine.threads - 1) * machine.block;
    if (busy && !readers.empty() && all_in_chain && !is_output(graph, z)) outputs_.insert(z);
  }
  for (const BackwardChain& chain : chains) {
    if (outputs_.contains(chain.z)) gradients_[chain.dy] = chain.z;
  }
}

}  // namespace trainer::backend::cpu
