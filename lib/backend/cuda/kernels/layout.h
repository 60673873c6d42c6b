// Between parameters as the graph has them (float32; kernels HWIO, [kh * kw][in][out]) and as
// cuDNN's convolutions want them (activation type; KRSC, [out][kh * kw][in]).
//
// A launch costs about 2 us on a GPU, whatever it does. In a step of ResNet50, 107 copies of
// parameters are packed, 53 gradients of kernels unpacked and 53 pairs of moving statistics updated
// (batch_norm.h), each in less time than that. One launch therefore does it for about a hundred
// layers. Their pointers are in the argument of the kernel, and so in the captured graph, which
// needs no table in device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "base/types.h"

namespace trainer::backend::cuda {

// A kernel in both layouts.
struct KernelLayouts {
  float* hwio = nullptr;  // [positions][in][out]
  void* krsc = nullptr;   // [out][positions][in], of another type
  std::int64_t positions = 0, in = 0, out = 0;
};
// krsc = hwio, rounded to `type`. One launch for many kernels.
void pack_kernels(std::span<const KernelLayouts> kernels, DType type, cudaStream_t stream);
// hwio = krsc, which is of `type`. One launch for many kernels.
void unpack_kernels(std::span<const KernelLayouts> kernels, DType type, cudaStream_t stream);

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
