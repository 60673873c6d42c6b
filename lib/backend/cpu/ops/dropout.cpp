#include "backend/cpu/simd/ops/dropout.inl"

#include <algorithm>

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"
#include "backend/cpu/simd/ops/multiply.inl"

namespace trainer::backend::cpu {
namespace {

using simd::DropoutKernels;

// Draws one factor per unit, then multiplies. A factor of a sample is repeated for all its
// elements.
void lower_dropped_units(const graph::Dropout& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const std::int64_t samples = x.n(), elements = x.shape.elements() / samples;
  const std::int64_t units = op.unit == graph::Dropout::Unit::kChannel ? x.c() : 1;
  const BufferId ones = l.scratch(samples * units * kFloatBytes);
  const BufferId factors = l.scratch(samples * units * kFloatBytes);
  const BufferId repeated = l.scratch(elements * kFloatBytes);
  const auto draw = simd::find_kernels<DropoutKernels<float>>(l.kernels()).dropout;
  emit_kernels<simd::MultiplyKernels>(
      l, x.type, [=]<class T>(const CallContext& c, const simd::MultiplyKernels<T>& kernels) {
        float *one = c.at<float>(ones), *factor = c.at<float>(factors);
        std::fill_n(one, c.samples * units, 1.0f);
        draw(one, factor, c.samples, units, op.rate, op.seed, op.layer, c.scalars->update,
             c.first_sample);
        for (std::int64_t s = 0; s < c.samples; ++s) {
          const float* from = factor + s * units;
          const std::int64_t width = units > 1 ? units : elements;
          float* to = c.at<float>(repeated);
          for (std::int64_t i = 0; i < width; ++i) to[i] = from[units > 1 ? i : 0];
          kernels.multiply_f32(c.at<T>(x.buffer) + s * elements, to,
                               c.at<T>(y.buffer) + s * elements, elements / width, width);
        }
      });
}

}  // namespace

// In plain layout, so that an element's draw does not depend on the machine's block size.
template <>
void lower(const graph::Dropout& op, Lowering& l) {
  if (op.unit != graph::Dropout::Unit::kElement) return lower_dropped_units(op, l);
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const std::int64_t elements = x.shape.elements() / x.n();
  emit_kernels<DropoutKernels>(
      l, x.type, [=]<class T>(const CallContext& c, const DropoutKernels<T>& kernels) {
        over_parts(c, c.samples, [&](std::int64_t first, std::int64_t count, int) {
          kernels.dropout(c.at<T>(x.buffer) + first * elements,
                          c.at<T>(y.buffer) + first * elements, count, elements, op.rate, op.seed,
                          op.layer, c.scalars->update,
                          c.first_sample + static_cast<std::uint64_t>(first));
        });
      });
}

}  // namespace trainer::backend::cpu
