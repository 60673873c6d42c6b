// Parts of a batch norm's gradient, from which single ops and fused ops are made.
#pragma once

#include <algorithm>

#include "backend/cpu/ops/norm_parts.h"

namespace trainer::backend::cpu {

// The operands of the gradient of a batch norm, of either form.
struct NormGradient {
  Operand x, dy;       // dy: before the activation if the kernels do not apply it
  BufferId y = -1;     // read by the activation's derivative; -1: not needed, or computed from x
  BufferId beta = -1;  // used to compute y again; -1: y is not computed again
  BufferId gamma, mean, scale;  // scale: inverse_std, or the variance
  BufferId dgamma, dbeta;
  Channels channels;
  BufferId sums;  // simd::GradientSums
  NormRows rows;
  float epsilon;
  bool training;

  // Fills the inverse deviation and the coefficients of the norm.
  void fill_norm(const CallContext& c) const;
  // Computes the gradients of gamma and beta and the coefficients of dx from the sums.
  void finish_sums(const CallContext& c) const;
};

// The memory of NormGradient::sums and NormGradient::rows, which the caller allocates.
struct NormGradientMemory {
  BufferId sums, rows;
};
std::int64_t gradient_sums_bytes(const Channels& ch);

// Returns the operands of the node that is lowered. dy must still be multiplied by the derivative
// of `activation`.
NormGradient norm_gradient(Lowering& l, const graph::Activation& activation, float epsilon,
                           bool training, const NormGradientMemory& memory);

// Returns the place of dx, which is that of dy if nothing else reads dy.
Operand norm_dx(Lowering& l);

template <class T>
void take_gradient_sums(const CallContext& c, const simd::Typed<T>& kernels, std::int64_t block,
                        const NormGradient& b) {
  auto* sums = c.at<simd::GradientSums>(b.sums);
  std::fill(sums, sums + b.channels.padded, simd::GradientSums{});
  over_channels(c, b.channels.shape, block, [&](const PlanePart& part) {
    kernels.norm_sums(part.shape, c.at<T>(b.x.buffer) + part.element,
                      c.at<T>(b.dy.buffer) + part.element,
                      b.y >= 0 ? c.at<T>(b.y) + part.element : nullptr, b.rows.at(c, part.channel),
                      b.rows.row(c, NormRows::kInverseStd, part.channel), sums + part.channel);
  });
}

template <class T>
void write_dx(const CallContext& c, const simd::Typed<T>& kernels, std::int64_t block,
              const NormGradient& b, T* dx) {
  over_planes(c, b.channels.shape, block, [&](const PlanePart& part) {
    kernels.norm_backward(
        part.shape, c.at<T>(b.x.buffer) + part.element, c.at<T>(b.dy.buffer) + part.element,
        b.y >= 0 ? c.at<T>(b.y) + part.element : nullptr, b.rows.at(c, part.channel),
        b.rows.gradient_at(c, part.channel), dx + part.element);
  });
}

}  // namespace trainer::backend::cpu
