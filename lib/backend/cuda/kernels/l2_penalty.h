// Penalties of parameters.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "graph/ops/l2_penalty.h"

namespace trainer::backend::cuda {

// graph::L2Penalty, summed in double in an order that depends on the count alone. `scratch` holds
// 1024 doubles.
void penalty(const graph::L2Penalty& op, const float* w, std::int64_t count, float* y,
             double* scratch, cudaStream_t stream);

}  // namespace trainer::backend::cuda
