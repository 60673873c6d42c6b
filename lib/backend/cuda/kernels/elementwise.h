// Conversions, sums and copies that belong to no op. Floats are float32, bfloat16 or float16
// (`type`), and are computed in float32. All functions enqueue and return; counts are elements;
// pointers are device memory, and those of whole buffers are aligned to 16 bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"

namespace trainer::backend::cuda {

// Between float types, to nearest even; the same type copies.
void convert(const void* from, DType from_type, void* to, DType to_type, std::int64_t count,
             cudaStream_t stream);

// to += from, float32; with `assign` to = from.
void accumulate(const float* from, float* to, bool assign, std::int64_t count, cudaStream_t stream);

// A box of n * h * w pixels with `bytes` bytes each, between tensors with these pitches in bytes:
// Concat, Slice, Crop and the inside of ZeroPad.
struct BoxPitch {
  std::int64_t sample = 0, row = 0, pixel = 0;
};
void copy_box(const void* from, const BoxPitch& from_pitch, void* to, const BoxPitch& to_pitch,
              std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t bytes,
              cudaStream_t stream);

}  // namespace trainer::backend::cuda
