#include "backend/cpu/ops/residual_sums.h"

#include <algorithm>

#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// The only node that reads a value; null where there are several or none, and for graph outputs.
const Node* only_reader(const Graph& graph, ValueId id) {
  if (std::count(graph.outputs.begin(), graph.outputs.end(), id) > 0) return nullptr;
  const std::vector<int> readers = graph.consumers(id);
  return readers.size() == 1 ? &graph.nodes[static_cast<std::size_t>(readers[0])] : nullptr;
}

// Whether the value is a norm's output, of images, without an activation, and used here alone.
bool can_skip_output(const Graph& graph, ValueId z) {
  const int maker = graph.producer(z);
  if (maker < 0 || only_reader(graph, z) == nullptr || graph[z].shape.rank() != 4) return false;
  const Node& node = graph.nodes[static_cast<std::size_t>(maker)];
  if (const auto* norm = std::get_if<graph::BatchNorm>(&node.op)) return norm->activation.linear();
  const auto* norm = std::get_if<graph::BatchNormInference>(&node.op);
  return norm != nullptr && norm->activation.linear();
}

}  // namespace

ResidualSums::ResidualSums(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::Add>(node.op) || node.inputs.size() != 2) continue;
    ValueId z = node.inputs[0], other = node.inputs[1];
    if (!can_skip_output(graph, z)) std::swap(z, other);
    if (!can_skip_output(graph, z)) continue;
    outputs_.insert(z);
    if (can_skip_output(graph, other)) outputs_.insert(other);

    const ValueId s = node.outputs[0];
    const Node* next = only_reader(graph, s);
    const auto* activate = next != nullptr ? std::get_if<graph::Activate>(&next->op) : nullptr;
    if (activate != nullptr && has_gate(activate->activation)) {
      skipped_sums_.insert(s);
      sums[next->outputs[0]] = {z, other, activate->activation};
    } else {
      sums[s] = {z, other, {}};
    }
  }
}

bool lower_residual_sum(Lowering& l) {
  ResidualSums& residual = l.residual_sums();
  const ValueId result = l.node().outputs[0];
  if (residual.skips_sum(result)) return true;
  const auto found = residual.sums.find(result);
  if (found == residual.sums.end()) return false;
  const ResidualSums::Sum& sum = found->second;

  const auto take = [&](ValueId z) {
    const ResidualSums::Input& input = residual.inputs.at(z);
    l.reuse(input.x.buffer);
    reuse(l, input.norm);
    return input;
  };
  ResidualSums::Input first = take(sum.z);
  first.norm.gate = gate_of(sum.activation);
  first.norm.alpha = sum.activation.alpha;
  const bool both = residual.skips_output(sum.other);
  const ResidualSums::Input other =
      both ? take(sum.other) : ResidualSums::Input{l.value(sum.other, Layout::kBlocked), {}};
  const Operand w = l.output(0, Layout::kBlocked);
  const Channels ch = channels_of(w, l);
  const std::int64_t block = l.machine().block;
  with_type(w.type, [&]<class T>() {
    l.step(concat(l.kernels().name, both ? " with two batch norms" : " with a batch norm"),
           [=, &kernels = typed<T>(l)](const RunContext& c) {
             over_planes(c, ch.shape, block, [&](const PlanePart& part) {
               const T* x = c.at<T>(first.x.buffer) + part.element;
               const T* y = c.at<T>(other.x.buffer) + part.element;
               T* to = c.at<T>(w.buffer) + part.element;
               const simd::NormCoefficients norm = first.norm.at(c, part.channel);
               if (both) {
                 kernels.add_two_norms(part.shape, x, norm, y, other.norm.at(c, part.channel), to);
               } else {
                 kernels.add_to_norm(part.shape, x, norm, y, to);
               }
             });
           });
  });
  return true;
}

}  // namespace trainer::backend::cpu
