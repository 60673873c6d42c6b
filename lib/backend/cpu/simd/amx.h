// Convolutions in bfloat16 on AMX: matrix products of tiles of 16 rows of 64 bytes, sums in float32
// (Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter "Intel AMX").
#pragma once

#include <cstdint>

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

// A convolution of stride 1 over blocked planes of 16 channels: x [n, in, h, w], y [n, out, oh,
// ow]. Padding above and left is not negative; y may reach beyond what padding x gives below and
// right.
struct AmxShape {
  std::int64_t n = 0, h = 0, w = 0, oh = 0, ow = 0, kh = 0, kw = 0, dh = 0, dw = 0;
  std::int64_t top = 0, left = 0, in = 0, out = 0;
  // If false, the kernel is [kh, kw, in, out]. If true, it is [kh, kw, out, in] and is turned by
  // 180 degrees, so that a gradient goes back through the convolution.
  bool transposed = false;
  FusedActivation activation = FusedActivation::kNone;
  float alpha = 0;
  // The output channels to compute in the gradient of the kernel; the first is a multiple of
  // kAmxPanel, the end is a multiple or `out`.
  std::int64_t out_begin = 0, out_end = 0;
};
inline constexpr std::int64_t kAmxPanel = 32;

// The kernels are single-threaded and pure functions of their arguments. Only the gradient of the
// kernel depends on the other samples of a batch; it is summed in their order.
struct AmxKernels {
  // pack_kernel() writes the kernel in the format of convolution(); it takes kernel_bytes().
  std::int64_t (*kernel_bytes)(const AmxShape&);
  void (*pack_kernel)(const AmxShape&, const float* kernel, BFloat16* to);
  // y = activation(convolution + bias); bias may be null. `scratch` has scratch_bytes(),
  // 64-aligned.
  void (*convolution)(const AmxShape&, const BFloat16* x, const BFloat16* packed_kernel,
                      const float* bias, BFloat16* y, char* scratch);
  std::int64_t (*scratch_bytes)(const AmxShape&);
  // Writes the gradients of a convolution that is not transposed: dkernel [kh, kw, in, out], and
  // dbias [out] if not null.
  void (*weights)(const AmxShape&, const BFloat16* x, const BFloat16* dy, float* dkernel,
                  float* dbias, char* scratch);
  std::int64_t (*weights_scratch_bytes)(const AmxShape&);
};

// Returns null if the processor has no AMX for bfloat16, or if Linux does not allow its use.
const AmxKernels* amx_kernels();

}  // namespace trainer::backend::cpu::simd
