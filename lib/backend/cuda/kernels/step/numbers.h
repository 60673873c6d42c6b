// The numbers of a call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/kernels/step.h"

namespace trainer::backend::cuda {

// Adds a part of a call to its numbers, in sample order and double: sums of losses, ranks of 0,
// whether all losses are finite. Null pointers are not counted. `first` resets the
// numbers to zero and finite; only the first part adds the penalty.
void add_numbers(const float* losses, const std::int32_t* ranks, const float* penalty,
                 std::int64_t samples, bool first, StepNumbers* numbers, cudaStream_t stream);

}  // namespace trainer::backend::cuda
