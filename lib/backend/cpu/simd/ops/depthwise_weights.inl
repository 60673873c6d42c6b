// The gradient of the kernel of a depthwise convolution with a square window.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

// A depthwise convolution over blocked planes: x [n, blocks, h, w], y [n, blocks, oh, ow]; `top`
// and `left` are padding, of at least 0. Kernels compute the blocks [block_begin, block_end).
struct DepthwiseWeightsShape {
  std::int64_t n, blocks, h, w, oh, ow, side, stride, top, left, block_begin, block_end;
};

template <class T>
struct DepthwiseWeightsKernels {
  // Sets dkernel [side, side, blocks * block] and, unless it is null, dbias [blocks * block]. The
  // side is 3, 5 or 7, the stride 1 or 2.
  void (*gradient)(const DepthwiseWeightsShape&, const T* x, const T* dy, float* dkernel,
                   float* dbias, float* scratch);
  // Returns the number of floats of scratch.
  std::int64_t (*scratch)(const DepthwiseWeightsShape&);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

constexpr std::int64_t kOutputsAtOnce = 4;

std::int64_t depthwise_weights_scratch(const DepthwiseWeightsShape& s) {
  return ((s.ow - 1) * s.stride + s.side) * B;
}

// Adds the products of `count` outputs of a row to the sums of the taps of a row, of even and of
// odd outputs by themselves, so that they do not wait for each other.
template <int side, int stride, int count, class T>
inline void add_tap_products(const float* x, const T* dy, V (&even)[side], V (&odd)[side]) {
  V g[count];
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) g[i] = load(dy + i * B);
#pragma GCC unroll 16
  for (int column = 0; column < (count - 1) * stride + side; ++column) {
    const V value = load(x + column * B);
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) {
      const int tap = column - i * stride;
      if (tap < 0 || tap >= side) continue;
      (i % 2 == 0 ? even : odd)[tap] += value * g[i];
    }
  }
}

template <int side, int stride, class T>
inline void add_row_products(const float* x, const T* dy, std::int64_t ow, V* taps) {
  V even[side] = {}, odd[side] = {};
  std::int64_t i = 0;
  for (; i + kOutputsAtOnce <= ow; i += kOutputsAtOnce) {
    add_tap_products<side, stride, kOutputsAtOnce>(x + i * stride * B, dy + i * B, even, odd);
  }
  for (; i < ow; ++i) {
    add_tap_products<side, stride, 1>(x + i * stride * B, dy + i * B, even, odd);
  }
  for (int tap = 0; tap < side; ++tap) taps[tap] += even[tap] + odd[tap];
}

// Adds the gradient of a plane to `taps`. `row` is scratch whose padding is 0.
template <int side, int stride, class T>
inline void add_plane_products(const DepthwiseWeightsShape& s, const T* x, const T* dy, float* row,
                               V (&taps)[side * side]) {
  const std::int64_t columns = least(s.w, (s.ow - 1) * stride + side - s.left);
  for (std::int64_t y = 0; y < s.h; ++y, x += s.w * B) {
    for (std::int64_t i = 0; i < columns; ++i) store(row + (s.left + i) * B, load(x + i * B));
    for (std::int64_t ky = 0; ky < side; ++ky) {
      const std::int64_t at = y + s.top - ky;
      if (at < 0 || at % stride != 0 || at / stride >= s.oh) continue;
      add_row_products<side, stride>(row, dy + at / stride * s.ow * B, s.ow, taps + ky * side);
    }
  }
}

template <class T>
inline V sum_pixels(const T* dy, std::int64_t pixels) {
  V sum{};
  for (std::int64_t i = 0; i < pixels; ++i) sum += load(dy + i * B);
  return sum;
}

template <int side, int stride, class T>
void depthwise_weights(const DepthwiseWeightsShape& s, const T* x, const T* dy, float* dkernel,
                       float* dbias, float* scratch) {
  for (std::int64_t i = 0; i < depthwise_weights_scratch(s); i += B) store(scratch + i, V{});
  for (std::int64_t k = s.block_begin; k < s.block_end; ++k) {
    V taps[side * side] = {}, bias{};
    for (std::int64_t n = 0; n < s.n; ++n) {
      const std::int64_t plane = n * s.blocks + k;
      const T* of_plane = dy + plane * s.oh * s.ow * B;
      V sums[side * side] = {};
      add_plane_products<side, stride>(s, x + plane * s.h * s.w * B, of_plane, scratch, sums);
      for (int tap = 0; tap < side * side; ++tap) taps[tap] += sums[tap];
      if (dbias != nullptr) bias += sum_pixels(of_plane, s.oh * s.ow);
    }
    for (int tap = 0; tap < side * side; ++tap) {
      store(dkernel + (tap * s.blocks + k) * B, taps[tap]);
    }
    if (dbias != nullptr) store(dbias + k * B, bias);
  }
}

template <class T>
void depthwise_weights_of_any(const DepthwiseWeightsShape& s, const T* x, const T* dy,
                              float* dkernel, float* dbias, float* scratch) {
  const auto run = [&]<int side>() {
    if (s.stride == 1) return depthwise_weights<side, 1>(s, x, dy, dkernel, dbias, scratch);
    depthwise_weights<side, 2>(s, x, dy, dkernel, dbias, scratch);
  };
  if (s.side == 3) return run.template operator()<3>();
  if (s.side == 5) return run.template operator()<5>();
  run.template operator()<7>();
}

template <class T>
constexpr DepthwiseWeightsKernels<T> kKernels<DepthwiseWeightsKernels<T>> = {
    .gradient = depthwise_weights_of_any<T>,
    .scratch = depthwise_weights_scratch,
};

}  // namespace

template const DepthwiseWeightsKernels<float>& find_kernels();
template const DepthwiseWeightsKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
