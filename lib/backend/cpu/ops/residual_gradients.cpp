#include "backend/cpu/ops/residual_gradients.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/ops/batch_norm.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using simd::GradientSums;

// The first norm without an activation that takes `d`, made by node `at`, for its gradient.
const Node* norm_that_takes(const Graph& graph, ValueId d, int at) {
  for (const int reader : graph.consumers(d)) {
    const Node& node = graph.nodes[static_cast<std::size_t>(reader)];
    const auto* norm = std::get_if<graph::BatchNormBackward>(&node.op);
    if (norm == nullptr || !norm->activation.linear() || node.inputs[1] != d) continue;
    // Activations that are computed again may come too late.
    const bool in_time = std::all_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId id) { return graph.producer(id) <= at; });
    if (in_time) return &node;
  }
  return nullptr;
}

}  // namespace

ResidualGradients::ResidualGradients(const Graph& graph, const Machine& machine) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto* op = std::get_if<graph::ActivateBackward>(&node.op);
    if (op == nullptr || op->activation.linear() || !has_gate(op->activation)) continue;
    const ValueId dy = node.inputs[1], d = node.outputs[0];
    if (graph[d].shape.rank() != 4) continue;
    // Sums by channel keep only as many threads busy as there are blocks of channels.
    const bool busy = graph[d].shape[3] > (machine.threads - 1) * machine.block;
    Gradient gradient{dy, graph::kNoValue, false,
                      busy ? norm_that_takes(graph, d, static_cast<int>(i)) : nullptr};
    const int maker = graph.producer(dy);
    if (maker >= 0 && has_one_reader(graph, dy)) {
      const Node& sum = graph.nodes[static_cast<std::size_t>(maker)];
      if (std::holds_alternative<graph::Add>(sum.op) && sum.inputs.size() == 2) {
        gradient.a = sum.inputs[0];
        gradient.b = sum.inputs[1];
        skipped_sums_.insert(dy);
      }
    }
    if (gradient.b == graph::kNoValue && gradient.norm == nullptr) continue;
    for (ValueId* other : {&gradient.a, &gradient.b}) {
      if (gradient.overwrites_a || *other == graph::kNoValue) continue;
      gradient.overwrites_a = has_one_reader(graph, *other);
      if (gradient.overwrites_a) std::swap(gradient.a, *other);
    }
    gradients[d] = gradient;
  }
}

bool lower_residual_gradient(const graph::ActivateBackward& op, Lowering& l) {
  ResidualGradients& residual = l.residual_gradients();
  const auto found = residual.gradients.find(l.node().outputs[0]);
  if (found == residual.gradients.end()) return false;
  const ResidualGradients::Gradient& gradient = found->second;

  const Operand w = l.input(0, Layout::kBlocked);
  const Operand a = l.value(gradient.a, Layout::kBlocked);
  const bool has_b = gradient.b != graph::kNoValue;
  const Buffer b = has_b ? l.value(gradient.b, Layout::kBlocked).buffer : -1;
  if (gradient.overwrites_a) l.alias_output(0, a);
  const Operand d = l.output(0, Layout::kBlocked);
  const Channels ch = channels_of(d, l);

  const Node* norm = gradient.norm;
  const auto sums_bytes = ch.padded * static_cast<std::int64_t>(sizeof(GradientSums));
  Buffer x = -1, mean = -1, inverse_std = -1, sums = -1, padded_mean = -1, padded_std = -1;
  if (norm != nullptr) {
    x = l.value(norm->inputs[0], Layout::kBlocked).buffer;
    mean = l.value(norm->inputs[3], Layout::kPlain).buffer;
    inverse_std = l.value(norm->inputs[4], Layout::kPlain).buffer;
    sums = l.scratch(sums_bytes);
    padded_mean = l.scratch(ch.padded * 4);
    padded_std = l.scratch(ch.padded * 4);
    residual.sums[norm->outputs[0]] = sums;
  }
  const simd::Gate gate = gate_of(op.activation);
  const std::int64_t block = l.machine().block;
  with_type(d.type, [&]<class T>() {
    const auto implementation =
        concat(l.kernels().name, norm != nullptr ? " with a batch norm" : "");
    l.step(implementation,
           [=, &kernels = typed<T>(l), alpha = op.activation.alpha](const RunContext& c) {
             if (sums >= 0) {
               pad(c.at<float>(mean), ch.count, ch.padded, c.at<float>(padded_mean));
               pad(c.at<float>(inverse_std), ch.count, ch.padded, c.at<float>(padded_std));
               std::memset(c.at<void>(sums), 0, static_cast<std::size_t>(sums_bytes));
             }
             const auto run = [&](const PlanePart& part) {
               const simd::GatedGradient<T> from{c.at<T>(a.buffer) + part.element,
                                                 b >= 0 ? c.at<T>(b) + part.element : nullptr,
                                                 c.at<T>(w.buffer) + part.element, gate, alpha};
               T* to = c.at<T>(d.buffer) + part.element;
               if (sums < 0) return kernels.gate_gradient(part.shape, from, to);
               kernels.gate_gradient_sums(part.shape, from, to, c.at<T>(x) + part.element,
                                          c.at<float>(padded_mean) + part.channel,
                                          c.at<float>(padded_std) + part.channel,
                                          c.at<GradientSums>(sums) + part.channel);
             };
             if (sums >= 0) return over_channels(c, ch.shape, block, run);
             over_planes(c, ch.shape, block, run);
           });
  });
  return true;
}

}  // namespace trainer::backend::cpu
