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
  std::int64_t n, h, w, oh, ow, kh, kw, dh, dw, top, left, in, out;
  // The kernel is [kh, kw, in, out]; or [kh, kw, out, in] and to be turned by 180 degrees, so that
  // a gradient goes back through the convolution.
  bool transposed;
  Gate gate;
  float alpha;
  // Of the gradient of the kernel: the output channels to compute, from a multiple of kAmxPanel to
  // one, or to `out`.
  std::int64_t out_begin, out_end;
};
inline constexpr std::int64_t kAmxPanel = 32;

// Single-threaded, pure functions of their arguments. No result depends on the other samples of a
// batch but the gradient of the kernel, which is summed in their order.
struct AmxKernels {
  // The kernel as convolution() reads it, and its size in bytes.
  std::int64_t (*kernel_bytes)(const AmxShape&);
  void (*pack_kernel)(const AmxShape&, const float* kernel, BFloat16* to);
  // y = gate(convolution + bias); bias may be null. `scratch` has scratch_bytes(), 64-aligned.
  void (*convolution)(const AmxShape&, const BFloat16* x, const BFloat16* packed_kernel,
                      const float* bias, BFloat16* y, char* scratch);
  std::int64_t (*scratch_bytes)(const AmxShape&);
  // Writes the gradients of a convolution that is not transposed: dkernel [kh, kw, in, out], and
  // dbias [out] if not null.
  void (*weights)(const AmxShape&, const BFloat16* x, const BFloat16* dy, float* dkernel,
                  float* dbias, char* scratch);
  std::int64_t (*weights_scratch_bytes)(const AmxShape&);
};

// Null where the processor has no AMX for bfloat16 or the kernel does not let this process use it.
const AmxKernels* amx_kernels();

}  // namespace trainer::backend::cpu::simd
