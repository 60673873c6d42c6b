// Convolution of few channels + relu + 2x2 max pooling. A pooled pixel's four convolution outputs
// stay in registers: the unpooled image, four times the size, is never written.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

// A convolution with few input channels followed by relu or nothing and 2x2 max pooling. x is
// planar [n, c, h, w]; the kernel is [kh, kw, c, oc padded to blocks]; y and index are blocked.
struct ConvMaxPoolShape {
  std::int64_t n, c, h, w, oc_blocks, kh, kw, top, left, oh, ow;
  bool relu;
};

template <class T>
struct ConvMaxPoolKernels {
  // `scratch` of both is that of an image in floats.
  void (*forward)(const ConvMaxPoolShape&, const T* x, const float* kernel, const float* bias, T* y,
                  std::uint8_t* index, float* scratch);
  // Writes the whole gradient: dkernel as [kh, kw, c, oc padded], dbias [oc padded].
  void (*backward)(const ConvMaxPoolShape&, const T* x, const T* dy, const T* y,
                   const std::uint8_t* index, float* dkernel, float* dbias, float* scratch);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

// Returns an image as floats: in place, or copied to `scratch`. The multiplication itself
// broadcasts a float.
inline const float* as_floats(const float* image, std::int64_t, float*) { return image; }
inline const float* as_floats(const BFloat16* image, std::int64_t count, float* scratch) {
  for (std::int64_t i = 0; i < count; ++i) scratch[i] = get(image + i);
  return scratch;
}

// `pixels` pooled pixels side by side, `blocks` output blocks at once. `inside`: no tap is in the
// padding.
template <int pixels, int blocks, int k, bool inside, class T>
inline void conv_max_pool_pixels(const ConvMaxPoolShape& s, const float* image, const float* kernel,
                                 const float* bias, std::int64_t py, std::int64_t px, T* y,
                                 std::uint8_t* index, std::int64_t plane) {
  V sums[pixels][4][blocks];
  for (int p = 0; p < pixels; ++p)
    for (int q = 0; q < 4; ++q)
      for (int b = 0; b < blocks; ++b) sums[p][q][b] = load(bias + b * B);
  const std::int64_t kh = k > 0 ? k : s.kh;
  const std::int64_t kw = k > 0 ? k : s.kw;
  const std::int64_t oc = s.oc_blocks * B;
  const std::int64_t y0 = 2 * py - s.top, x0 = 2 * px - s.left;
  for (std::int64_t c = 0; c < s.c; ++c) {
    const float* channel = image + c * s.h * s.w;
    for (std::int64_t i = 0; i < kh; ++i) {
#pragma GCC unroll 3
      for (std::int64_t j = 0; j < kw; ++j) {
        const float* tap = kernel + ((i * kw + j) * s.c + c) * oc;
        V weights[blocks];
        for (int b = 0; b < blocks; ++b) weights[b] = load(tap + b * B);
        for (int p = 0; p < pixels; ++p) {
          for (int q = 0; q < 4; ++q) {
            const std::int64_t yy = y0 + i + q / 2, xx = x0 + j + 2 * p + q % 2;
            if (!inside && (yy < 0 || xx < 0 || yy >= s.h || xx >= s.w)) continue;
            const float x = channel[yy * s.w + xx];
            for (int b = 0; b < blocks; ++b) sums[p][q][b] += weights[b] * x;
          }
        }
      }
    }
  }
  for (int p = 0; p < pixels; ++p) {
    for (int b = 0; b < blocks; ++b) {
      V best = sums[p][0][b];
      I winner{};
      for (int q = 1; q < 4; ++q) {
        const I won = wins(sums[p][q][b], best);
        best = select(won, sums[p][q][b], best);
        winner = won ? I{} + q : winner;
      }
      if (s.relu) best = activate<FusedActivation::kRelu>(best, 0);
      const std::int64_t at = b * plane + (py * s.ow + px + p) * B;
      store(y + at, best);
      store_index(index + at, winner);
    }
  }
}

// Chooses `inside` and computes the pixels as above.
template <int pixels, int blocks, int k, class T>
inline void conv_max_pool_pixels_at(const ConvMaxPoolShape& s, const float* image,
                                    const float* kernel, const float* bias, std::int64_t py,
                                    std::int64_t px, T* y, std::uint8_t* index,
                                    std::int64_t plane) {
  const std::int64_t y0 = 2 * py - s.top, x0 = 2 * px - s.left;
  const bool inside =
      y0 >= 0 && x0 >= 0 && y0 + s.kh + 1 <= s.h && x0 + 2 * pixels - 1 + s.kw <= s.w;
  const auto run = inside ? conv_max_pool_pixels<pixels, blocks, k, true, T>
                          : conv_max_pool_pixels<pixels, blocks, k, false, T>;
  run(s, image, kernel, bias, py, px, y, index, plane);
}

template <int blocks, int k, class T>
void conv_max_pool_image(const ConvMaxPoolShape& s, const float* image, const float* kernel,
                         const float* bias, T* y, std::uint8_t* index) {
  const std::int64_t plane = s.oh * s.ow * B;
  for (std::int64_t py = 0; py < s.oh; ++py) {
    std::int64_t px = 0;
    for (; px + 2 <= s.ow; px += 2)
      conv_max_pool_pixels_at<2, blocks, k>(s, image, kernel, bias, py, px, y, index, plane);
    for (; px < s.ow; ++px)
      conv_max_pool_pixels_at<1, blocks, k>(s, image, kernel, bias, py, px, y, index, plane);
  }
}

template <class T>
void conv_max_pool(const ConvMaxPoolShape& s, const T* x, const float* kernel, const float* bias,
                   T* y, std::uint8_t* index, float* scratch) {
  const std::int64_t plane = s.oh * s.ow * B, numbers = s.c * s.h * s.w;
  for (std::int64_t n = 0; n < s.n; ++n) {
    const float* image = as_floats(x + n * numbers, numbers, scratch);
    for (std::int64_t b = 0; b < s.oc_blocks;) {
      const std::int64_t at = (n * s.oc_blocks + b) * plane;
      const bool pair = b + 2 <= s.oc_blocks;
      const bool three = s.kh == 3 && s.kw == 3;
      const auto run = pair ? (three ? conv_max_pool_image<2, 3, T> : conv_max_pool_image<2, 0, T>)
                            : (three ? conv_max_pool_image<1, 3, T> : conv_max_pool_image<1, 0, T>);
      run(s, image, kernel + b * B, bias + b * B, y + at, index + at);
      b += pair ? 2 : 1;
    }
  }
}

// The gradient of one channel's taps, all images. Only the winner of each window has a gradient, so
// the four positions are masked with the index.
template <int k, class T>
void conv_max_pool_channel_gradient(const ConvMaxPoolShape& s, std::int64_t block,
                                    std::int64_t channel, const T* x, const T* dy, const T* y,
                                    const std::uint8_t* index, float* dkernel, float* dbias,
                                    float* scratch) {
  constexpr int kTaps = k * k;
  V taps[kTaps] = {};
  V bias_sum{};
  const std::int64_t plane = s.oh * s.ow * B;
  for (std::int64_t n = 0; n < s.n; ++n) {
    const float* image = as_floats(x + (n * s.c + channel) * s.h * s.w, s.h * s.w, scratch);
    const std::int64_t at = (n * s.oc_blocks + block) * plane;
    for (std::int64_t py = 0; py < s.oh; ++py) {
      for (std::int64_t px = 0; px < s.ow; ++px) {
        const std::int64_t o = at + (py * s.ow + px) * B;
        V g = load(dy + o);
        if (s.relu) g = through<FusedActivation::kRelu>(g, load(y + o), 0);
        bias_sum += g;
        const I winner = widen(load_index(index + o));
        V parts[4];
        for (int q = 0; q < 4; ++q) parts[q] = select(winner == q, g, V{});
        const std::int64_t y0 = 2 * py - s.top, x0 = 2 * px - s.left;
        const bool inside = y0 >= 0 && x0 >= 0 && y0 + k + 1 <= s.h && x0 + k + 1 <= s.w;
        if (inside) {
          const float* patch = image + y0 * s.w + x0;
#pragma GCC unroll 5
          for (int i = 0; i < k; ++i)
#pragma GCC unroll 5
            for (int j = 0; j < k; ++j)
#pragma GCC unroll 4
              for (int q = 0; q < 4; ++q)
                taps[i * k + j] += parts[q] * patch[(i + q / 2) * s.w + j + q % 2];
          continue;
        }
        for (int i = 0; i < k; ++i)
          for (int j = 0; j < k; ++j)
            for (int q = 0; q < 4; ++q) {
              const std::int64_t yy = y0 + i + q / 2, xx = x0 + j + q % 2;
              if (yy < 0 || xx < 0 || yy >= s.h || xx >= s.w) continue;
              taps[i * k + j] += parts[q] * image[yy * s.w + xx];
            }
      }
    }
  }
  const std::int64_t oc = s.oc_blocks * B;
  for (int t = 0; t < kTaps; ++t) store(dkernel + (t * s.c + channel) * oc + block * B, taps[t]);
  if (channel == 0) store(dbias + block * B, bias_sum);
}

template <class T>
void conv_max_pool_backward(const ConvMaxPoolShape& s, const T* x, const T* dy, const T* y,
                            const std::uint8_t* index, float* dkernel, float* dbias,
                            float* scratch) {
  const auto run = s.kh == 1   ? conv_max_pool_channel_gradient<1, T>
                   : s.kh == 3 ? conv_max_pool_channel_gradient<3, T>
                               : conv_max_pool_channel_gradient<5, T>;
  for (std::int64_t block = 0; block < s.oc_blocks; ++block)
    for (std::int64_t channel = 0; channel < s.c; ++channel)
      run(s, block, channel, x, dy, y, index, dkernel, dbias, scratch);
}

template <class T>
constexpr ConvMaxPoolKernels<T> kKernels<ConvMaxPoolKernels<T>> = {
    .forward = conv_max_pool<T>,
    .backward = conv_max_pool_backward<T>,
};

}  // namespace

template const ConvMaxPoolKernels<float>& find_kernels();
template const ConvMaxPoolKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
