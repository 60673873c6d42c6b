// graph::Preprocess. Types, counts and pointers are as in elementwise.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"

namespace trainer::backend::cuda {

// y = x * a[c] + b[c] with a = scale / std, b = -mean / std (float32, device),
// from uint8 or float32 pixels of `channels` channels; `count` pixels of all images.
void preprocess(const void* x, DType from, void* y, DType to, const float* a, const float* b,
                std::int64_t count, std::int64_t channels, bool reverse_channels,
                cudaStream_t stream);

}  // namespace trainer::backend::cuda
