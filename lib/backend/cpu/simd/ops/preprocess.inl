// graph::Preprocess: y = (x * scale - mean[c]) / std[c].
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

template <class T>
struct PreprocessKernels {
  // y = (x * scale - mean[c]) / std[c] as x * a[c] + b[c]; x is NHWC, y planar.
  void (*from_u8)(const std::uint8_t* x, T* y, std::int64_t n, std::int64_t pixels, std::int64_t c,
                  bool reverse, const float* a, const float* b);
  void (*from_f32)(const float* x, T* y, std::int64_t n, std::int64_t pixels, std::int64_t c,
                   bool reverse, const float* a, const float* b);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

template <class In, class T>
void preprocess(const In* x, T* y, std::int64_t n, std::int64_t pixels, std::int64_t c,
                bool reverse, const float* a, const float* b) {
  for (std::int64_t s = 0; s < n; ++s, x += pixels * c) {
    for (std::int64_t k = 0; k < c; ++k, y += pixels) {
      const float va = a[k], vb = b[k];
      if (c == 1) {
        for (std::int64_t i = 0; i < pixels; ++i) put(y + i, static_cast<float>(x[i]) * va + vb);
      } else {
        const In* from = x + (reverse ? c - 1 - k : k);
        for (std::int64_t i = 0; i < pixels; ++i)
          put(y + i, static_cast<float>(from[i * c]) * va + vb);
      }
    }
  }
}

template <class T>
constexpr PreprocessKernels<T> kKernels<PreprocessKernels<T>> = {
    .from_u8 = preprocess<std::uint8_t, T>,
    .from_f32 = preprocess<float, T>,
};

}  // namespace

template const PreprocessKernels<float>& find_kernels();
template const PreprocessKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
