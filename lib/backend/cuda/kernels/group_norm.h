// graph::GroupNorm: normalization within samples or pixels. x is [rows][groups * channels];
// `pixels` rows make one of `outer` samples, or 1 row a pixel of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"

namespace trainer::backend::cuda {

struct GroupShape {
  std::int64_t outer, pixels, groups, channels;
  float epsilon;

  std::int64_t c() const { return groups * channels; }
  std::int64_t rows() const { return outer * pixels; }
};

// y = (x - mean) / std * gamma + beta, with the mean and biased variance of each group. Moments are
// taken in two sweeps over a group, which the cache holds.
void group_norm(const GroupShape& shape, const void* x, const float* gamma, const float* beta,
                void* y, DType type, cudaStream_t stream);

// Bytes of scratch for group_norm_backward.
std::int64_t group_norm_scratch(const GroupShape& shape);
// graph::GroupNormBackward; dgamma and dbeta are summed in an order that depends on the extents
// alone where the pointers are aligned as whole buffers are.
void group_norm_backward(const GroupShape& shape, const void* x, const void* dy, const float* gamma,
                         void* dx, float* dgamma, float* dbeta, DType type, void* scratch,
                         cudaStream_t stream);

}  // namespace trainer::backend::cuda
