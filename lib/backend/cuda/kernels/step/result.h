// The result of a call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/kernels/step.h"

namespace trainer::backend::cuda {

// Adds a part of a call to its result, in sample order and double: sums of losses, ranks of 0,
// whether all losses are finite. Null pointers are not counted. `first` resets the
// result to zero and finite; only the first part adds the penalty.
void add_to_result(const float* losses, const std::int32_t* ranks, const float* penalty,
                   std::int64_t samples, bool first, DeviceResult* result, cudaStream_t stream);

}  // namespace trainer::backend::cuda
