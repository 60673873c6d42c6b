// Pooling, NHWC. Semantics are those of graph::Pool and graph::PoolBackward: padding never wins,
// the first of equal maxima wins, averages are over pixels inside the image. No atomics: the same
// bits each time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"
#include "graph/ops/pool.h"

namespace trainer::backend::cuda {

// The image side of a pooling; the output's extents follow from the window.
struct PoolShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0;
  graph::Window window;
};

// index (uint8, position of the winner in the window, row by row) may be null.
void max_pool(const PoolShape& shape, const void* x, void* y, std::uint8_t* index, DType type,
              cudaStream_t stream);
void average_pool(const PoolShape& shape, const void* x, void* y, DType type, cudaStream_t stream);
// Each element of dx gathers from the windows that hold it. y and activation: see
// graph::PoolBackward; y is null without an activation, whose derivative must follow from y.
void max_pool_backward(const PoolShape& shape, const void* dy, const std::uint8_t* index,
                       const void* y, const graph::Activation& activation, void* dx, DType type,
                       cudaStream_t stream);
void average_pool_backward(const PoolShape& shape, const void* dy, const void* y,
                           const graph::Activation& activation, void* dx, DType type,
                           cudaStream_t stream);

// [n, pixels, c] -> [n, c] and back. The maximum's gradient goes to the first pixel that equals y.
void global_average(const void* x, void* y, std::int64_t n, std::int64_t pixels, std::int64_t c,
                    DType type, cudaStream_t stream);
void global_average_backward(const void* dy, void* dx, std::int64_t n, std::int64_t pixels,
                             std::int64_t c, DType type, cudaStream_t stream);
void global_max(const void* x, void* y, std::int64_t n, std::int64_t pixels, std::int64_t c,
                DType type, cudaStream_t stream);
void global_max_backward(const void* dy, const void* x, const void* y, void* dx, std::int64_t n,
                         std::int64_t pixels, std::int64_t c, DType type, cudaStream_t stream);

}  // namespace trainer::backend::cuda
