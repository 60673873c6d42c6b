// Between parameters as the graph has them (float32; kernels HWIO, [kh * kw][in][out]) and as
// cuDNN's convolutions want them (activation type; KRSC, [out][kh * kw][in]).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"

namespace trainer::backend::cuda {

// from[positions][in][out] -> to[out][positions][in], rounded to `type`.
void pack_kernel(const float* from, void* to, DType type, std::int64_t positions, std::int64_t in,
                 std::int64_t out, cudaStream_t stream);
// The way back: to = from as float32. `from` is of `type`.
void unpack_kernel(const void* from, DType type, float* to, std::int64_t positions, std::int64_t in,
                   std::int64_t out, cudaStream_t stream);

// Bytes of scratch for sum_rows.
std::int64_t sum_rows_scratch(std::int64_t rows, std::int64_t c);
// to[c] = sum over rows of from[rows][c], float32, in an order that depends on the extents alone
// where `from` is aligned as whole buffers are: the gradient of a bias.
void sum_rows(const void* from, DType type, std::int64_t rows, std::int64_t c, float* to,
              void* scratch, cudaStream_t stream);
// y[rows][c] = activation-free y + bias[c], in place.
void add_bias(void* y, DType type, const float* bias, std::int64_t rows, std::int64_t c,
              cudaStream_t stream);

}  // namespace trainer::backend::cuda
