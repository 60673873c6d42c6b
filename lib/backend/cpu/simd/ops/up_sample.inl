// Enlarges images by whole factors. Each pixel is a mean of four neighbours.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

// Images are [planes, h, w, block]. Pixel (y, x) of the larger image is a mean of four pixels of
// the smaller one: of rows above[y] and below[y] with weights 1 - down[y] and down[y], and of
// columns left[x] and right[x] with weights 1 - across[x] and across[x].
struct UpSampleShape {
  std::int64_t planes, h, w, large_h, large_w, block;
  const std::int32_t *above, *below, *left, *right;
  const float *down, *across;
};

template <class T>
struct UpSampleKernels {
  // `plane` is [h, w, block] floats.
  void (*forward)(const UpSampleShape&, const T* x, T* y);
  void (*backward)(const UpSampleShape&, const T* dy, T* dx, float* plane);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

template <class T>
void up_sample(const UpSampleShape& s, const T* x, T* y) {
  for (std::int64_t p = 0; p < s.planes; ++p, x += s.h * s.w * s.block) {
    for (std::int64_t i = 0; i < s.large_h; ++i) {
      const T* above = x + s.above[i] * s.w * s.block;
      const T* below = x + s.below[i] * s.w * s.block;
      const float down = s.down[i];
      for (std::int64_t j = 0; j < s.large_w; ++j, y += s.block) {
        const std::int64_t left = s.left[j] * s.block, right = s.right[j] * s.block;
        const float across = s.across[j];
        for (std::int64_t k = 0; k < s.block; ++k) {
          const float a = get(above + left + k) * (1 - across) + get(above + right + k) * across;
          const float b = get(below + left + k) * (1 - across) + get(below + right + k) * across;
          put(y + k, a * (1 - down) + b * down);
        }
      }
    }
  }
}

template <class T>
void up_sample_backward(const UpSampleShape& s, const T* dy, T* dx, float* plane) {
  const std::int64_t elements = s.h * s.w * s.block;
  for (std::int64_t p = 0; p < s.planes; ++p, dx += elements) {
    for (std::int64_t i = 0; i < elements; ++i) plane[i] = 0;
    for (std::int64_t i = 0; i < s.large_h; ++i) {
      float* above = plane + s.above[i] * s.w * s.block;
      float* below = plane + s.below[i] * s.w * s.block;
      const float down = s.down[i];
      for (std::int64_t j = 0; j < s.large_w; ++j, dy += s.block) {
        const std::int64_t left = s.left[j] * s.block, right = s.right[j] * s.block;
        const float across = s.across[j];
        for (std::int64_t k = 0; k < s.block; ++k) {
          const float d = get(dy + k), a = d * (1 - down), b = d * down;
          above[left + k] += a * (1 - across);
          above[right + k] += a * across;
          below[left + k] += b * (1 - across);
          below[right + k] += b * across;
        }
      }
    }
    for (std::int64_t i = 0; i < elements; ++i) put(dx + i, plane[i]);
  }
}

template <class T>
constexpr UpSampleKernels<T> kKernels<UpSampleKernels<T>> = {
    .forward = up_sample<T>,
    .backward = up_sample_backward<T>,
};

}  // namespace

template const UpSampleKernels<float>& find_kernels();
template const UpSampleKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
