// graph::Attention and its gradient. qkv is [samples][tokens][3 * heads * channels].
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"

namespace trainer::backend::cuda {

struct AttentionShape {
  std::int64_t samples, tokens, heads, channels;  // channels of a head
};

// Writes the log-sums, [samples][heads][tokens], unless they are null.
void attention(const AttentionShape& shape, const void* qkv, void* y, float* log_sums, DType type,
               cudaStream_t stream);

void attention_backward(const AttentionShape& shape, const void* qkv, const void* y,
                        const float* log_sums, const void* dy, void* dqkv, DType type,
                        cudaStream_t stream);

}  // namespace trainer::backend::cuda
