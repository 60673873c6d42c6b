// Depthwise 3x3 convolutions over blocked planes between two batch norms:
//   x -> norm before -> z -> convolution -> y -> norm after -> w
// z and the gradient of y are never written to memory. The convolution makes rows of them, as
// floats, in the L1 cache when it needs them: of z from x, of the gradient of y from y and the
// gradient of w.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

// A depthwise convolution 3x3 over blocked planes: x [n, blocks, h, w], y [n, blocks, oh, ow], with
// a stride of 1 or 2; `top` and `left` are padding. Kernels compute the blocks [block_begin,
// block_end) of all samples.
struct DepthwiseShape {
  std::int64_t n, blocks, h, w, oh, ow, stride, top, left, block_begin, block_end;
};
// The operands of the gradient of a convolution between two batch norms; dw is the gradient of the
// second norm's output.
template <class T>
struct DepthwiseGradient {
  const T *x, *y, *dw;
  NormCoefficients before, after;
  const float* inverse_std;               // inverse deviation of the norm before
  NormGradientCoefficients coefficients;  // coefficients of the norm after
};

template <class T>
struct DepthwiseChainKernels {
  // y = the convolution of x through the batch norm before it; kernel is [3, 3, blocks * block].
  // Sets shift to y's first pixels and adds the moments of y about it to `moments`.
  void (*forward)(const DepthwiseShape&, const T* x, const NormCoefficients& before,
                  const float* kernel, T* y, float* shift, Moments* moments, float* scratch);
  // Sets dx, the gradient before the activation of the norm before, adds its sums to `sums`, and
  // sets dkernel, which has the shape of the kernel.
  void (*backward)(const DepthwiseShape&, const DepthwiseGradient<T>&, const float* kernel, T* dx,
                   float* dkernel, GradientSums* sums, float* scratch);
  // They return the number of floats of scratch that forward() and backward() need.
  std::int64_t (*scratch)(const DepthwiseShape&);
  std::int64_t (*backward_scratch)(const DepthwiseShape&);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

constexpr std::int64_t kSide = 3;
constexpr int kPixelsAtOnce = 4;

// Both return the columns of a row: of z with its padding, and of the gradient of y spread to the
// pixels of z.
inline std::int64_t depthwise_columns(const DepthwiseShape& s) {
  const std::int64_t read = (s.ow - 1) * s.stride + kSide, given = s.left + s.w;
  return read > given ? read : given;
}
inline std::int64_t depthwise_gradient_columns(const DepthwiseShape& s) { return s.w + kSide - 1; }

std::int64_t depthwise_scratch(const DepthwiseShape& s) {
  return (kSide + 1) * depthwise_columns(s) * B;
}
std::int64_t depthwise_backward_scratch(const DepthwiseShape& s) {
  return (kSide * depthwise_gradient_columns(s) + 2 * s.w) * B;
}

inline void zero_floats(float* p, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += B) store(p + i, V{});
}

template <class T>
inline void normalise_row(const T* x, std::int64_t pixels, const NormCoefficients& norms,
                          std::int64_t block, float* z) {
  with_activation(norms.activation, [&]<FusedActivation activation>() {
    const BlockNorm<activation> norm(norms, block);
    for (std::int64_t i = 0; i < pixels * B; i += B) store(z + i, norm(load(x + i)));
  });
}

// Prefetches `count` pixels that will be read next.
template <int count, class T>
inline void prefetch(const T* p) {
  constexpr int kLine = 64 / sizeof(T);
#pragma GCC unroll 16
  for (int i = 0; i < count * B; i += kLine) __builtin_prefetch(p + i);
}

// Computes `count` outputs of a row from the rows of z at their first column.
template <int stride, int count, class T>
inline void depthwise_pixels(const float* const (&rows)[kSide], const V (&kernel)[9],
                             std::int64_t column, T* y) {
  V sum[count] = {};
#pragma GCC unroll 3
  for (int ky = 0; ky < kSide; ++ky) {
    constexpr int kRead = (count - 1) * stride + kSide;
    V z[kRead];
#pragma GCC unroll 16
    for (int i = 0; i < kRead; ++i) z[i] = load(rows[ky] + (column + i) * B);
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) {
#pragma GCC unroll 3
      for (int kx = 0; kx < kSide; ++kx) sum[i] += kernel[ky * kSide + kx] * z[i * stride + kx];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) store(y + i * B, sum[i]);
}

template <int stride, class T>
inline void depthwise_row(const float* const (&rows)[kSide], const V (&kernel)[9], std::int64_t ow,
                          T* y, const T* next) {
  std::int64_t ox = 0;
  for (; ox + kPixelsAtOnce <= ow; ox += kPixelsAtOnce) {
    prefetch<kPixelsAtOnce * stride * stride>(next + ox * stride * stride * B);
    prefetch<kPixelsAtOnce>(y + (ow + ox) * B);
    depthwise_pixels<stride, kPixelsAtOnce>(rows, kernel, ox * stride, y + ox * B);
  }
  for (; ox < ow; ++ox) depthwise_pixels<stride, 1>(rows, kernel, ox * stride, y + ox * B);
}

// The last rows of z that were made, and zeros for those outside the image.
template <class T>
class RowsOfZ {
 public:
  RowsOfZ(const DepthwiseShape& s, float* scratch) : s_(s), scratch_(scratch) {
    row_ = depthwise_columns(s) * B;
    zero_floats(scratch, (kSide + 1) * row_);
  }
  void begin(const T* x, std::int64_t block) {
    x_ = x;
    block_ = block;
    made_ = 0;
  }
  const float* at(std::int64_t y, const NormCoefficients& norm) {
    if (y < 0 || y >= s_.h) return scratch_ + kSide * row_;
    for (; made_ <= y; ++made_) {
      normalise_row(x_ + made_ * s_.w * B, s_.w, norm, block_, place(made_) + s_.left * B);
    }
    return place(y);
  }
  // Returns the operands of the next row, to prefetch them.
  const T* next() const { return x_ + made_ * s_.w * B; }

 private:
  float* place(std::int64_t y) { return scratch_ + y % kSide * row_; }
  const DepthwiseShape& s_;
  float* scratch_;
  const T* x_ = nullptr;
  std::int64_t row_, block_ = 0, made_ = 0;
};

inline void load_taps(const float* kernel, std::int64_t blocks, std::int64_t block, V (&taps)[9]) {
  for (std::int64_t t = 0; t < kSide * kSide; ++t)
    taps[t] = load(kernel + (t * blocks + block) * B);
}

template <class T>
void depthwise(const DepthwiseShape& s, const T* x, const NormCoefficients& before,
               const float* kernel, T* y, float* shift, Moments* moments, float* scratch) {
  RowsOfZ<T> z(s, scratch);
  for (std::int64_t k = s.block_begin; k < s.block_end; ++k) {
    V taps[kSide * kSide];
    load_taps(kernel, s.blocks, k, taps);
    for (std::int64_t n = 0; n < s.n; ++n) {
      z.begin(x + (n * s.blocks + k) * s.h * s.w * B, k);
      T* out = y + (n * s.blocks + k) * s.oh * s.ow * B;
      V sum{}, square{};
      for (std::int64_t oy = 0; oy < s.oh; ++oy, out += s.ow * B) {
        const std::int64_t top = oy * s.stride - s.top;
        const float* rows[kSide];
        for (std::int64_t ky = 0; ky < kSide; ++ky) rows[ky] = z.at(top + ky, before);
        if (s.stride == 1) {
          depthwise_row<1>(rows, taps, s.ow, out, z.next());
        } else {
          depthwise_row<2>(rows, taps, s.ow, out, z.next());
        }
        if (n == 0 && oy == 0) store(shift + k * B, load(out));
        add_moments(out, s.ow, load(shift + k * B), sum, square);
      }
      add_to(moments + k * B, sum, square);
    }
  }
}

// Rows to prefetch while another one is computed.
template <class T>
struct Next {
  const T* rows[2];
};

// The last rows of the gradient of y, at the pixels of z that a tap reads: pixel 0 is two columns
// left of the image, the pixels between outputs are zero.
template <class T>
class RowsOfGradient {
 public:
  RowsOfGradient(const DepthwiseShape& s, const DepthwiseGradient<T>& g, float* scratch)
      : s_(s), g_(g), scratch_(scratch) {
    row_ = depthwise_gradient_columns(s) * B;
    zero_floats(scratch, kSide * row_);
    first_ = s.left > 2 ? ceil_div(s.left - 2, s.stride) : 0;
    last_ = least(s.ow, (s.w + s.left - 1) / s.stride + 1);
  }
  void begin(std::int64_t plane, std::int64_t block) {
    at_ = plane * s_.oh * s_.ow * B;
    block_ = block;
    made_ = 0;
  }
  // Returns the row of outputs that reads row y of z by its taps ky; null if there is none.
  const float* at(std::int64_t y, std::int64_t ky) {
    const std::int64_t row = y + s_.top - ky;
    if (row < 0 || row % s_.stride != 0 || row / s_.stride >= s_.oh) return nullptr;
    for (; made_ <= row / s_.stride; ++made_) make();
    return place(row / s_.stride);
  }
  // Returns the operands of the next row, to prefetch them.
  Next<T> next() const {
    const std::int64_t at = at_ + made_ * s_.ow * B;
    return {{g_.y + at, g_.dw + at}};
  }

 private:
  void make() {
    const T *y = g_.y + at_ + made_ * s_.ow * B, *dw = g_.dw + at_ + made_ * s_.ow * B;
    float* to = place(made_);
    with_activation(g_.after.activation, [&]<FusedActivation activation>() {
      const BlockNorm<activation> norm(g_.after, block_);
      const V p = load(g_.coefficients.p + block_ * B), q = load(g_.coefficients.q + block_ * B);
      const V r = load(g_.coefficients.r + block_ * B);
      for (std::int64_t i = first_; i < last_; ++i) {
        const V value = load(y + i * B);
        const V g =
            before_activation<activation, false, float>(norm, load(dw + i * B), value, nullptr, 0);
        store(to + (i * s_.stride + 2 - s_.left) * B, p * g + (q * (value - norm.mean) + r));
      }
    });
  }
  float* place(std::int64_t row) { return scratch_ + row % kSide * row_; }

  const DepthwiseShape& s_;
  const DepthwiseGradient<T>& g_;
  float* scratch_;
  std::int64_t row_, first_, last_, at_ = 0, block_ = 0, made_ = 0;
};

// Adds the products of three taps of one row, for `count` pixels of z, to dz and to the gradients
// of the taps.
template <int count>
inline void depthwise_backward_pixels(const float* dy, const V* taps, const float* z, float* dz,
                                      V (&dtaps)[kSide]) {
  V d[count + kSide - 1], product[kSide];
#pragma GCC unroll 16
  for (int i = 0; i < count + kSide - 1; ++i) d[i] = load(dy + i * B);
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) {
    const V value = load(z + i * B);
    V sum = load(dz + i * B);
#pragma GCC unroll 3
    for (int kx = 0; kx < kSide; ++kx) {
      const V g = d[i + kSide - 1 - kx];
      sum += taps[kx] * g;
      product[kx] = i == 0 ? value * g : product[kx] + value * g;
    }
    store(dz + i * B, sum);
  }
#pragma GCC unroll 3
  for (int kx = 0; kx < kSide; ++kx) dtaps[kx] += product[kx];
}

template <class T>
inline void depthwise_backward_row(const float* dy, const V* taps, std::int64_t pixels,
                                   const float* z, float* dz, V* dtaps, const Next<T>& next) {
  V row[kSide] = {};
  std::int64_t i = 0;
  for (; i + kPixelsAtOnce <= pixels; i += kPixelsAtOnce) {
    for (const T* p : next.rows) prefetch<kPixelsAtOnce>(p + i * B);
    depthwise_backward_pixels<kPixelsAtOnce>(dy + i * B, taps, z + i * B, dz + i * B, row);
  }
  for (; i < pixels; ++i)
    depthwise_backward_pixels<1>(dy + i * B, taps, z + i * B, dz + i * B, row);
  for (int kx = 0; kx < kSide; ++kx) dtaps[kx] += row[kx];
}

// Computes dx = dz through the activation at z, and its sums for the norm before.
template <class T>
inline void backward_row(const NormCoefficients& before, const float* inverse_std,
                         std::int64_t block, std::int64_t pixels, const T* x, const float* z,
                         const float* dz, T* dx, V& sum, V& product) {
  with_activation(before.activation, [&]<FusedActivation activation>() {
    const V mean = load(before.mean + block * B), is = load(inverse_std + block * B);
    add_runs(pixels, sum, product, [&](std::int64_t i, V& run_sum, V& run_product) {
      const V g = through<activation>(load(dz + i * B), load(z + i * B), before.alpha);
      store(dx + i * B, g);
      run_sum += g;
      run_product += g * ((load(x + i * B) - mean) * is);
    });
  });
}

template <class T>
void depthwise_backward(const DepthwiseShape& s, const DepthwiseGradient<T>& g, const float* kernel,
                        T* dx, float* dkernel, GradientSums* sums, float* scratch) {
  RowsOfGradient<T> gradient(s, g, scratch);
  float* z = scratch + kSide * depthwise_gradient_columns(s) * B;
  float* dz = z + s.w * B;
  for (std::int64_t k = s.block_begin; k < s.block_end; ++k) {
    V taps[kSide * kSide], dtaps[kSide * kSide] = {};
    load_taps(kernel, s.blocks, k, taps);
    for (std::int64_t n = 0; n < s.n; ++n) {
      const std::int64_t plane = n * s.blocks + k;
      gradient.begin(plane, k);
      V sum{}, product{}, of_plane[kSide * kSide] = {};
      for (std::int64_t y = 0; y < s.h; ++y) {
        const std::int64_t at = (plane * s.h + y) * s.w * B, after = at + s.w * B;
        normalise_row(g.x + at, s.w, g.before, k, z);
        zero_floats(dz, s.w * B);
        for (std::int64_t ky = kSide; ky-- > 0;) {
          const float* dy = gradient.at(y, ky);
          if (dy == nullptr) continue;
          const Next<T> next[kSide] = {
              {{dx + after, dx + after}}, gradient.next(), {{g.x + after, g.x + after}}};
          depthwise_backward_row(dy, taps + ky * kSide, s.w, z, dz, of_plane + ky * kSide,
                                 next[ky]);
        }
        backward_row(g.before, g.inverse_std, k, s.w, g.x + at, z, dz, dx + at, sum, product);
      }
      for (std::int64_t t = 0; t < kSide * kSide; ++t) dtaps[t] += of_plane[t];
      add_to(sums + k * B, sum, product);
    }
    for (std::int64_t t = 0; t < kSide * kSide; ++t)
      store(dkernel + (t * s.blocks + k) * B, dtaps[t]);
  }
}

template <class T>
constexpr DepthwiseChainKernels<T> kKernels<DepthwiseChainKernels<T>> = {
    .forward = depthwise<T>,
    .backward = depthwise_backward<T>,
    .scratch = depthwise_scratch,
    .backward_scratch = depthwise_backward_scratch,
};

}  // namespace

template const DepthwiseChainKernels<float>& find_kernels();
template const DepthwiseChainKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
