// Lowers 3x3 convolutions of stride 1 in float32 onto our own Winograd kernels
// (simd/winograd*.inl). Reasons: lib/decisions/backend.md#convolution-kernels-of-our-own.
#pragma once

#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

enum class Direction { kForward, kBackwardData, kBackwardWeights };

// Returns whether such a convolution is computed by Winograd F(4x4, 3x3). A rule decides, not a
// timing, so that the same config always gives the same bits. `x`, `y` and `kernel` have the shapes
// of forward.
bool winograd_chosen(const Lowering& l, Direction direction, const graph::Window& window,
                     std::int64_t groups, DType type, const Shape& x, const Shape& y,
                     const Shape& kernel);

void lower_winograd(const graph::Conv& op, Lowering& l);
void lower_winograd(const graph::ConvBackwardData& op, Lowering& l);
void lower_winograd(const graph::ConvBackwardWeights& op, Lowering& l);

}  // namespace trainer::backend::cpu
