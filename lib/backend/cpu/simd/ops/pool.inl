// Pooling over blocked planes, forward and backward.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

// A pooling window over blocked planes. index is row * kw + column of the winner in the window.
struct PoolShape {
  std::int64_t planes;  // samples * channel blocks
  std::int64_t h, w, oh, ow;
  std::int64_t kh, kw, sh, sw, dh, dw, top, left;
};

template <class T>
struct PoolKernels {
  void (*max_pool)(const PoolShape&, const T* x, T* y, std::uint8_t* index);  // index may be null
  // `plane` is scratch of h * w * block floats. y is read if there is an activation.
  void (*max_pool_backward)(const PoolShape&, const T* dy, const std::uint8_t* index, const T* y,
                            FusedActivation activation, float alpha, T* dx, float* plane);
  void (*average_pool)(const PoolShape&, const T* x, T* y);
  void (*average_pool_backward)(const PoolShape&, const T* dy, T* dx, float* plane);
  // [n, blocks, pixels, block] -> [n, blocks, block]
  void (*global_average)(const PlaneShape&, const T* x, T* y);
  void (*global_average_backward)(const PlaneShape&, const T* dy, T* dx);
  void (*global_max)(const PlaneShape&, const T* x, T* y);
  void (*global_max_backward)(const PlaneShape&, const T* x, const T* y, const T* dy, T* dx);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

// The part of a window that lies inside [0, extent).
struct Span {
  std::int64_t first, last;  // window positions [first, last)
};
inline Span inside(std::int64_t origin, std::int64_t size, std::int64_t dilation,
                   std::int64_t extent) {
  Span span{0, size};
  while (span.first < span.last && origin + span.first * dilation < 0) ++span.first;
  while (span.last > span.first && origin + (span.last - 1) * dilation >= extent) --span.last;
  return span;
}

// A window of a plane, and its positions that lie in the image.
struct PoolWindow {
  std::int64_t y, x;
  Span rows, columns;

  std::int64_t count() const { return (rows.last - rows.first) * (columns.last - columns.first); }
};

// Calls f(window) for the windows of a plane, row by row.
template <class F>
inline void each_window(const PoolShape& s, const F& f) {
  for (std::int64_t oy = 0; oy < s.oh; ++oy) {
    const std::int64_t y = oy * s.sh - s.top;
    const Span rows = inside(y, s.kh, s.dh, s.h);
    for (std::int64_t ox = 0; ox < s.ow; ++ox) {
      const std::int64_t x = ox * s.sw - s.left;
      f(PoolWindow{y, x, rows, inside(x, s.kw, s.dw, s.w)});
    }
  }
}

// Calls f(offset in the plane, index) for the positions of a window.
template <class F>
inline void each_position(const PoolShape& s, const PoolWindow& window, const F& f) {
  for (std::int64_t i = window.rows.first; i < window.rows.last; ++i)
    for (std::int64_t j = window.columns.first; j < window.columns.last; ++j)
      f(((window.y + i * s.dh) * s.w + window.x + j * s.dw) * B,
        static_cast<std::int32_t>(i * s.kw + j));
}

template <class T>
void max_pool(const PoolShape& s, const T* x, T* y, std::uint8_t* index) {
  for (std::int64_t plane = 0; plane < s.planes; ++plane, x += s.h * s.w * B) {
    each_window(s, [&](const PoolWindow& window) {
      V best = splat(-__builtin_inff());
      I winner = I{} + static_cast<std::int32_t>(window.rows.first * s.kw + window.columns.first);
      each_position(s, window, [&](std::int64_t at, std::int32_t position) {
        const V v = load(x + at);
        const I won = wins(v, best);
        best = select(won, v, best);
        winner = won ? I{} + position : winner;
      });
      store(y, best);
      y += B;
      if (index != nullptr) {
        store_index(index, winner);
        index += B;
      }
    });
  }
}

// Writes dx, a plane of gradients, to which add(window) adds in `plane`, in float.
template <class T, class Add>
inline void sum_windows(const PoolShape& s, float* plane, T* dx, const Add& add) {
  __builtin_memset(plane, 0, static_cast<std::size_t>(s.h * s.w * B) * sizeof(float));
  each_window(s, add);
  for (std::int64_t i = 0; i < s.h * s.w; ++i) store(dx + i * B, load(plane + i * B));
}

template <FusedActivation activation, class T>
void max_pool_backward_fused(const PoolShape& s, const T* dy, const std::uint8_t* index, const T* y,
                             float alpha, T* dx, float* plane) {
  const bool disjoint = s.sh >= s.kh && s.sw >= s.kw && s.dh == 1 && s.dw == 1 && s.top == 0 &&
                        s.left == 0 && s.oh * s.sh <= s.h && s.ow * s.sw <= s.w;
  for (std::int64_t p = 0; p < s.planes; ++p) {
    if (disjoint) {
      // Every pixel is written once. Pixels that no window covers are zero.
      if (s.oh * s.kh != s.h || s.ow * s.kw != s.w || s.sh != s.kh || s.sw != s.kw)
        __builtin_memset(dx, 0, static_cast<std::size_t>(s.h * s.w * B) * sizeof(T));
      for (std::int64_t oy = 0; oy < s.oh; ++oy) {
        for (std::int64_t ox = 0; ox < s.ow; ++ox, dy += B, y += B, index += B) {
          V g = load(dy);
          if constexpr (activation != FusedActivation::kNone)
            g = through<activation>(g, load(y), alpha);
          const I winner = widen(load_index(index));
          for (std::int64_t i = 0; i < s.kh; ++i)
            for (std::int64_t j = 0; j < s.kw; ++j)
              store(dx + ((oy * s.sh + i) * s.w + ox * s.sw + j) * B,
                    select(winner == static_cast<std::int32_t>(i * s.kw + j), g, V{}));
        }
      }
    } else {
      sum_windows(s, plane, dx, [&](const PoolWindow& window) {
        V g = load(dy);
        if constexpr (activation != FusedActivation::kNone)
          g = through<activation>(g, load(y), alpha);
        const I winner = widen(load_index(index));
        each_position(s, window, [&](std::int64_t at, std::int32_t position) {
          store(plane + at, load(plane + at) + select(winner == position, g, V{}));
        });
        dy += B;
        y += B;
        index += B;
      });
    }
    dx += s.h * s.w * B;
  }
}

template <class T>
void max_pool_backward(const PoolShape& s, const T* dy, const std::uint8_t* index, const T* y,
                       FusedActivation activation, float alpha, T* dx, float* plane) {
  with_activation(activation, [&]<FusedActivation constant>() {
    max_pool_backward_fused<constant>(s, dy, index, y, alpha, dx, plane);
  });
}

template <class T>
void average_pool(const PoolShape& s, const T* x, T* y) {
  for (std::int64_t plane = 0; plane < s.planes; ++plane, x += s.h * s.w * B) {
    each_window(s, [&](const PoolWindow& window) {
      V sum{};
      each_position(s, window, [&](std::int64_t at, std::int32_t) { sum += load(x + at); });
      store(y, window.count() > 0 ? sum / splat(static_cast<float>(window.count())) : V{});
      y += B;
    });
  }
}

template <class T>
void average_pool_backward(const PoolShape& s, const T* dy, T* dx, float* plane) {
  for (std::int64_t p = 0; p < s.planes; ++p, dx += s.h * s.w * B) {
    sum_windows(s, plane, dx, [&](const PoolWindow& window) {
      const V g = load(dy) / splat(static_cast<float>(window.count()));
      each_position(s, window, [&](std::int64_t at, std::int32_t) {
        store(plane + at, load(plane + at) + g);
      });
      dy += B;
    });
  }
}

template <class T>
void global_average(const PlaneShape& s, const T* x, T* y) {
  for (std::int64_t p = 0; p < s.n * s.blocks; ++p, y += B) {
    V sum{};
    for (std::int64_t i = 0; i < s.pixels; ++i, x += B) sum += load(x);
    store(y, sum / splat(static_cast<float>(s.pixels)));
  }
}

template <class T>
void global_average_backward(const PlaneShape& s, const T* dy, T* dx) {
  for (std::int64_t p = 0; p < s.n * s.blocks; ++p, dy += B) {
    const V g = load(dy) / splat(static_cast<float>(s.pixels));
    for (std::int64_t i = 0; i < s.pixels; ++i, dx += B) store(dx, g);
  }
}

template <class T>
void global_max(const PlaneShape& s, const T* x, T* y) {
  for (std::int64_t p = 0; p < s.n * s.blocks; ++p, y += B) {
    V best = load(x);
    for (std::int64_t i = 0; i < s.pixels; ++i, x += B) {
      const V v = load(x);
      best = select(wins(v, best), v, best);
    }
    store(y, best);
  }
}

template <class T>
void global_max_backward(const PlaneShape& s, const T* x, const T* y, const T* dy, T* dx) {
  for (std::int64_t p = 0; p < s.n * s.blocks; ++p, y += B, dy += B) {
    const V best = load(y);
    const V g = load(dy);
    I open = ~I{};
    for (std::int64_t i = 0; i < s.pixels; ++i, x += B, dx += B) {
      const I hit = (load(x) == best) & open;
      store(dx, select(hit, g, V{}));
      open &= ~hit;
    }
  }
}

template <class T>
constexpr PoolKernels<T> kKernels<PoolKernels<T>> = {
    .max_pool = max_pool<T>,
    .max_pool_backward = max_pool_backward<T>,
    .average_pool = average_pool<T>,
    .average_pool_backward = average_pool_backward<T>,
    .global_average = global_average<T>,
    .global_average_backward = global_average_backward<T>,
    .global_max = global_max<T>,
    .global_max_backward = global_max_backward<T>,
};

}  // namespace

template const PoolKernels<float>& find_kernels();
template const PoolKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
