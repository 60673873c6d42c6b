// The gradient at the end of a residual block, and its sums that a norm's gradient needs.
// Finite values have the same bits as those of separate instructions.
#include <algorithm>

#include "backend/cpu/ops/norm_parts.h"

namespace trainer::backend::cpu {
namespace {

// The sums that a norm's gradient needs, and the operands from which they are computed.
struct NormSums {
  BufferId x, mean, inverse_std, padded_mean, padded_std, sums;
};

NormSums norm_sums(const ResidualGradient& group, const Channels& ch, Lowering& l) {
  const auto& inputs = group.norm->inputs;
  return {l.value(inputs[0], Layout::kBlocked).buffer,
          l.value(inputs[3], Layout::kPlain).buffer,
          l.value(inputs[4], Layout::kPlain).buffer,
          l.scratch(ch.padded * 4),
          l.scratch(ch.padded * 4),
          l.make_extra(group.sums, gradient_sums_bytes(ch))};
}

}  // namespace

template <>
void lower(const ResidualGradient& group, Lowering& l) {
  const auto& op = std::get<graph::ActivateBackward>(group.node->op);
  const Operand saved = l.input(0, Layout::kBlocked);
  graph::ValueId terms[2] = {group.terms[0], group.terms[1]};
  const bool has_second = terms[1] != graph::kNoValue;
  const auto has_no_other_reader = [&](graph::ValueId id) { return has_one_reader(l.graph(), id); };
  // The result takes the memory of a term that nothing else reads.
  if (has_second && !has_no_other_reader(terms[0]) && has_no_other_reader(terms[1])) {
    std::swap(terms[0], terms[1]);
  }
  const Operand a = l.value(terms[0], Layout::kBlocked);
  const BufferId b = has_second ? l.value(terms[1], Layout::kBlocked).buffer : -1;
  if (has_no_other_reader(terms[0])) l.alias_output(0, a);
  const Operand dx = l.output(0, Layout::kBlocked);
  const Channels ch = find_channels(dx, l);
  const bool with_norm = group.norm != nullptr;
  const NormSums norm = with_norm ? norm_sums(group, ch, l) : NormSums{};
  const simd::FusedActivation activation = fused_activation(op.activation);
  const std::int64_t block = l.machine().block;
  emit_kernels<simd::Typed>(
      l, dx.type,
      [=, alpha = op.activation.alpha]<class T>(const CallContext& c,
                                                const simd::Typed<T>& kernels) {
        const auto make_gradient = [&](const PlanePart& part) {
          return simd::ActivationGradient<T>{
              c.at<T>(a.buffer) + part.element, b >= 0 ? c.at<T>(b) + part.element : nullptr,
              c.at<T>(saved.buffer) + part.element, activation, alpha};
        };
        T* to = c.at<T>(dx.buffer);
        if (!with_norm) {
          over_planes(c, ch.shape, block, [&](const PlanePart& part) {
            kernels.activation_gradient(part.shape, make_gradient(part), to + part.element);
          });
          return;
        }
        float *mean = c.at<float>(norm.padded_mean), *std = c.at<float>(norm.padded_std);
        pad(c.at<float>(norm.mean), ch.count, ch.padded, mean);
        pad(c.at<float>(norm.inverse_std), ch.count, ch.padded, std);
        auto* sums = c.at<simd::GradientSums>(norm.sums);
        std::fill(sums, sums + ch.padded, simd::GradientSums{});
        over_channels(c, ch.shape, block, [&](const PlanePart& part) {
          kernels.activation_gradient_sums(part.shape, make_gradient(part), to + part.element,
                                           c.at<T>(norm.x) + part.element, mean + part.channel,
                                           std + part.channel, sums + part.channel);
        });
      },
      with_norm ? " with a batch norm" : "");
}

}  // namespace trainer::backend::cpu
