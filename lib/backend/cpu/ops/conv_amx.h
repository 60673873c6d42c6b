// Convolutions of stride 1 in bfloat16 by our own kernels on AMX (simd/amx.h).
// Reasons: lib/decisions/backend.md#convolution-kernels-of-our-own.
#pragma once

#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

// Returns whether such a convolution is computed on AMX. `kernel` has the shape of forward.
bool amx_chosen(const Lowering& l, const graph::Window& window, std::int64_t groups, DType type,
                const Shape& kernel);

void lower_amx(const graph::Conv& op, Lowering& l);
void lower_amx(const graph::ConvBackwardData& op, Lowering& l);
void lower_amx(const graph::ConvBackwardWeights& op, Lowering& l);

}  // namespace trainer::backend::cpu
