#include "backend/cpu/simd/ops/group_norm.inl"

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using simd::GroupNormKernels;

template <class Op>
simd::GroupShape group_shape(const Op& op, const Shape& x) {
  const std::int64_t channels = x[x.rank() - 1], pixels = x.elements() / (x[0] * channels);
  if (op.per_pixel) return {x[0] * pixels, 1, op.groups, channels / op.groups, op.epsilon};
  return {x[0], pixels, op.groups, channels / op.groups, op.epsilon};
}

}  // namespace

template <>
void lower(const graph::GroupNorm& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const BufferId gamma = l.input(1, Layout::kPlain).buffer,
                 beta = l.input(2, Layout::kPlain).buffer;
  const Operand y = l.output(0, Layout::kPlain);
  const simd::GroupShape shape = group_shape(op, x.shape);
  emit_kernels<GroupNormKernels>(
      l, x.type, [=]<class T>(const CallContext& c, const GroupNormKernels<T>& kernels) {
        const std::int64_t values = shape.pixels * shape.groups * shape.channels;
        over_parts(c, shape.outer, [&](std::int64_t first, std::int64_t count, int) {
          simd::GroupShape part = shape;
          part.outer = count;
          kernels.forward(part, c.at<T>(x.buffer) + first * values, c.at<float>(gamma),
                          c.at<float>(beta), c.at<T>(y.buffer) + first * values);
        });
      });
}

template <>
void lower(const graph::GroupNormBackward& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain), dy = l.input(1, Layout::kPlain);
  const BufferId gamma = l.input(2, Layout::kPlain).buffer;
  const Operand dx = l.output(0, Layout::kPlain);
  const BufferId dgamma = l.output(1, Layout::kPlain).buffer;
  const BufferId dbeta = l.output(2, Layout::kPlain).buffer;
  const simd::GroupShape shape = group_shape(op, x.shape);
  const BufferId scratch = l.scratch(shape.scratch_bytes());
  emit_kernels<GroupNormKernels>(
      l, x.type, [=]<class T>(const CallContext& c, const GroupNormKernels<T>& kernels) {
        kernels.backward(shape, c.at<T>(x.buffer), c.at<T>(dy.buffer), c.at<float>(gamma),
                         c.at<T>(dx.buffer), c.at<float>(dgamma), c.at<float>(dbeta),
                         c.at<void>(scratch));
      });
}

}  // namespace trainer::backend::cpu
