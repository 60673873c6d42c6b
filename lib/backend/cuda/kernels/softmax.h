// Softmax of rows of n numbers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"

namespace trainer::backend::cuda {

void softmax(const void* x, void* y, DType type, std::int64_t rows, std::int64_t n,
             cudaStream_t stream);
void softmax_backward(const void* y, const void* dy, void* dx, DType type, std::int64_t rows,
                      std::int64_t n, cudaStream_t stream);

}  // namespace trainer::backend::cuda
