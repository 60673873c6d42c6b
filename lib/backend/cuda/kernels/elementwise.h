// Kernels that work element by element. Activations are float32, bfloat16 or float16 (`type`), and
// are computed in float32. All functions enqueue and return; counts are elements; pointers are
// device memory, and those of whole buffers are aligned to 16 bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cuda/kernels/step.h"
#include "base/types.h"
#include "graph/ops/activation.h"
#include "graph/ops/dropout.h"
#include "graph/ops/preprocess.h"

namespace trainer::backend::cuda {

// Between float types, to nearest even; the same type copies.
void convert(const void* from, DType from_type, void* to, DType to_type, std::int64_t count,
             cudaStream_t stream);

inline constexpr std::size_t kMaxSummands = 8;  // of one call of add()
// to = sum of the inputs in their order, 1 to kMaxSummands of them; `to` may be one of them.
void add(std::span<const void* const> from, void* to, DType type, std::int64_t count,
         cudaStream_t stream);
// to += from, float32; with `assign` to = from.
void accumulate(const float* from, float* to, bool assign, std::int64_t count, cudaStream_t stream);
// The same, where the device's StepScalars::accumulate says whether to add or to assign.
void accumulate_by_scalars(const float* from, float* to, const StepScalars* scalars,
                           std::int64_t count, cudaStream_t stream);

void activate(const graph::Activation& activation, const void* x, void* y, DType type,
              std::int64_t count, cudaStream_t stream);
// dx = dy * derivative, from s: see graph::ActivateBackward. dx may be dy.
void activate_backward(const graph::Activation& activation, const void* s, const void* dy, void* dx,
                       DType type, std::int64_t count, cudaStream_t stream);

// y = activation(a + b), and dx = (a + b) * derivative, with the bits of add() and the function
// above one after the other. For activations that are fusable and differentiable from their output.
void add_activate(const graph::Activation& activation, const void* a, const void* b, void* y,
                  DType type, std::int64_t count, cudaStream_t stream);
void add_activate_backward(const graph::Activation& activation, const void* s, const void* a,
                           const void* b, void* dx, DType type, std::int64_t count,
                           cudaStream_t stream);

// graph::Dropout on `samples` samples of `elements`: the draws of
// lib/backend/cpu/simd/ops/dropout.inl, bit for bit, of sample scalars->first_sample + offset + s
// and step scalars->update.
void dropout(const graph::Dropout& op, const void* x, void* y, DType type, std::int64_t samples,
             std::int64_t elements, std::int64_t offset, const StepScalars* scalars,
             cudaStream_t stream);

// The same on [samples][rows][c], with a draw for each channel of a sample or for the sample:
// dropped units are multiplied by 0.
void drop_units(const graph::Dropout& op, const void* x, void* y, DType type, std::int64_t samples,
                std::int64_t rows, std::int64_t c, std::int64_t offset, const StepScalars* scalars,
                cudaStream_t stream);

// graph::Preprocess: y = x * a[c] + b[c] with a = scale / std, b = -mean / std (float32, device),
// from uint8 or float32 pixels of `channels` channels; `count` pixels of all images.
void preprocess(const void* x, DType from, void* y, DType to, const float* a, const float* b,
                std::int64_t count, std::int64_t channels, bool reverse_channels,
                cudaStream_t stream);

// A box of n * h * w pixels with `bytes` bytes each, between tensors with these pitches in bytes:
// Concat, Slice, Crop and the inside of ZeroPad.
struct BoxPitch {
  std::int64_t sample = 0, row = 0, pixel = 0;
};
void copy_box(const void* from, const BoxPitch& from_pitch, void* to, const BoxPitch& to_pitch,
              std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t bytes,
              cudaStream_t stream);

}  // namespace trainer::backend::cuda
