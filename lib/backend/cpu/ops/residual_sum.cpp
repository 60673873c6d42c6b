// The sum at the end of a residual block, of one or two norms whose outputs no instruction writes.
// Finite values have the same bits as those of separate instructions.
#include "backend/cpu/ops/norm_parts.h"

namespace trainer::backend::cpu {
namespace {

// The input of a norm whose output is not written, and the rows that normalize it. An addend
// without a norm has no rows.
struct NormTerm {
  BufferId x;
  NormRows rows;
};

NormTerm norm_term(const UnwrittenNorm& term, const graph::Activation& activation, Lowering& l) {
  const Operand x = l.value(term.norm->inputs[0], Layout::kBlocked);
  return {x.buffer, norm_rows(l.extra(term.coefficients), find_channels(x, l), activation)};
}

}  // namespace

template <>
void lower(const ResidualSum& group, Lowering& l) {
  const NormTerm first = norm_term(group.norm, group.activation, l);
  const bool both = group.other_norm.norm != nullptr;
  const NormTerm other = both ? norm_term(group.other_norm, {}, l)
                              : NormTerm{l.value(group.addend, Layout::kBlocked).buffer, {}};
  const Operand y = l.output(0, Layout::kBlocked);
  const Channels ch = find_channels(y, l);
  const std::int64_t block = l.machine().block;
  emit_kernels<simd::Typed>(
      l, y.type,
      [=]<class T>(const CallContext& c, const simd::Typed<T>& kernels) {
        over_planes(c, ch.shape, block, [&](const PlanePart& part) {
          const T* x = c.at<T>(first.x) + part.element;
          const T* add = c.at<T>(other.x) + part.element;
          T* to = c.at<T>(y.buffer) + part.element;
          const simd::NormCoefficients norm = first.rows.at(c, part.channel);
          if (both) {
            kernels.add_two_norms(part.shape, x, norm, add, other.rows.at(c, part.channel), to);
          } else {
            kernels.add_to_norm(part.shape, x, norm, add, to);
          }
        });
      },
      both ? " with two batch norms" : " with a batch norm");
}

}  // namespace trainer::backend::cpu
