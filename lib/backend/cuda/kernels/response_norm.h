// Factors of global response normalization. A block takes the channels of a sample.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"
#include "graph/ops/response_norm.h"

namespace trainer::backend::cuda {

// graph::ResponseNorm of the sums of squares [samples][channels].
void response_norm(const graph::ResponseNorm& op, const float* sums, const float* gamma,
                   void* factors, void* norms, DType type, std::int64_t samples,
                   std::int64_t channels, cudaStream_t stream);
// graph::ResponseNormBackward.
void response_norm_backward(const graph::ResponseNormBackward& op, const void* norms,
                            const float* gamma, const void* dy, void* slopes, void* products,
                            DType type, std::int64_t samples, std::int64_t channels,
                            cudaStream_t stream);

}  // namespace trainer::backend::cuda
