// Depthwise convolutions, NHWC: groups = input channels, `multiplier` outputs each. The kernel is
// float32 [kh, kw, c * multiplier] as the graph has it; output channel k reads input k /
// multiplier. Sums are float32; no atomics.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"
#include "graph/ops/activation.h"
#include "graph/window.h"

namespace trainer::backend::cuda {

struct DepthwiseShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0;  // the extents of x
  std::int64_t multiplier = 1;
  graph::Window window;
};

// y = activation(x * kernel + bias); bias may be null.
void depthwise(const DepthwiseShape& shape, const void* x, const float* kernel, const float* bias,
               const graph::Activation& activation, void* y, DType type, cudaStream_t stream);
void depthwise_backward_data(const DepthwiseShape& shape, const void* dy, const float* kernel,
                             void* dx, DType type, cudaStream_t stream);
std::int64_t depthwise_scratch(const DepthwiseShape& shape);
// dkernel [kh, kw, c * multiplier], float32, in two steps of a fixed order.
void depthwise_backward_weights(const DepthwiseShape& shape, const void* x, const void* dy,
                                float* dkernel, DType type, void* scratch, cudaStream_t stream);

}  // namespace trainer::backend::cuda
