#include <numeric>

#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/reduce.cuh"
#include "base/random.h"

namespace trainer::backend::cuda {
namespace {

template <class From, class To, int N>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(const From* from, To* to, std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float v[N];
  load<N>(from + i, count - i, v);
  store<N>(v, count - i, to + i);
}

struct Inputs {
  const void* at[kMaxSummands];
};

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    add_kernel(Inputs inputs, int input_count, T* to, std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float sum[N];
  load<N>(static_cast<const T*>(inputs.at[0]) + i, count - i, sum);
  for (std::size_t k = 1; k < kMaxSummands; ++k) {
    if (static_cast<int>(k) >= input_count) break;
    float v[N];
    load<N>(static_cast<const T*>(inputs.at[k]) + i, count - i, v);
    for (int j = 0; j < N; ++j) sum[j] += v[j];
  }
  store<N>(sum, count - i, to + i);
}

// Adds unless `assign` is set, or unless scalars are given and say so.
template <int N>
__global__ void __launch_bounds__(kThreads)
    accumulate_kernel(const float* from, float* to, bool assign, const StepScalars* scalars,
                      std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float v[N];
  load<N>(from + i, count - i, v);
  if (scalars != nullptr ? scalars->accumulate != 0 : !assign) {
    float old[N];
    load<N>(to + i, count - i, old);
    for (int k = 0; k < N; ++k) v[k] = old[k] + v[k];
  }
  store<N>(v, count - i, to + i);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    activate_kernel(graph::Activation activation, const T* x, T* y, std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float v[N];
  load<N>(x + i, count - i, v);
  activate_alone(activation, v);
  store<N>(v, count - i, y + i);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    activate_backward_kernel(graph::Activation activation, const T* s, const T* dy, T* dx,
                             std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float saved[N], g[N];
  load<N>(s + i, count - i, saved);
  load<N>(dy + i, count - i, g);
  activate_backward(activation, saved, g);
  store<N>(g, count - i, dx + i);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    add_activate_kernel(graph::Activation activation, const T* a, const T* b, T* y,
                        std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float v[N], other[N];
  load<N>(a + i, count - i, v);
  load<N>(b + i, count - i, other);
  for (int k = 0; k < N; ++k) v[k] = rounded<T>(v[k] + other[k]);
  activate(activation, v);
  store<N>(v, count - i, y + i);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    add_activate_backward_kernel(graph::Activation activation, const T* s, const T* a, const T* b,
                                 T* dx, std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float saved[N], g[N], other[N];
  load<N>(s + i, count - i, saved);
  load<N>(a + i, count - i, g);
  load<N>(b + i, count - i, other);
  for (int k = 0; k < N; ++k) g[k] = rounded<T>(g[k] + other[k]);
  activate_backward_from_output(activation, saved, g);
  store<N>(g, count - i, dx + i);
}

struct DropoutDraws {
  std::uint32_t key[2];
  std::uint32_t layer;
  std::uint32_t threshold;  // of 2^24: smaller draws drop
  float scale;
};

// Draw k of 4 belongs to unit 4 * block + k of the sample.
__device__ inline std::array<std::uint32_t, 4> draw_block(const DropoutDraws& draws,
                                                          std::int64_t block, std::uint64_t sample,
                                                          std::uint64_t step) {
  return philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(sample),
                     static_cast<std::uint32_t>(step),
                     (draws.layer << 8) ^ static_cast<std::uint32_t>(step >> 32)},
                    {draws.key[0], draws.key[1]});
}

// Four elements a thread, which share one Philox block; blockIdx.y walks the samples.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(DropoutDraws draws, const T* x, T* y, std::int64_t samples,
                   std::int64_t elements, std::int64_t offset, const StepScalars* scalars) {
  constexpr int kDraws = 4;
  const std::int64_t i = first_element<kDraws>();
  if (i >= elements) return;
  const std::uint64_t step = scalars->update;
  for (std::int64_t s = blockIdx.y; s < samples; s += gridDim.y) {
    const std::uint64_t sample = scalars->first_sample + static_cast<std::uint64_t>(offset + s);
    const std::array<std::uint32_t, 4> draw = draw_block(draws, i / kDraws, sample, step);
    const T* from = x + s * elements + i;
    T* to = y + s * elements + i;
    const std::int64_t left = N == 1 ? elements - i : kDraws;
    float v[kDraws];
    if constexpr (N == 1) {
      for (int k = 0; k < kDraws; ++k) v[k] = k < left ? to_float(from[k]) : 0.0f;
    } else {
      load<kDraws>(from, v);
    }
    for (int k = 0; k < kDraws; ++k) {
      const auto bits = draw[static_cast<std::size_t>(k)] >> 8;
      v[k] = bits < draws.threshold ? 0.0f : v[k] * draws.scale;
    }
    if constexpr (N == 1) {
      for (int k = 0; k < kDraws; ++k) {
        if (k < left) assign(to[k], v[k]);
      }
    } else {
      store<kDraws>(v, to);
    }
  }
}

// The factors of a sample's channels from `channel` on, or of the whole sample.
template <int N>
__device__ inline void draw_factors(const DropoutDraws& draws, bool channels, std::int64_t channel,
                                    std::uint64_t sample, std::uint64_t step, float (&factor)[N]) {
  constexpr int kDraws = 4;
  const std::int64_t unit = channels ? channel : 0;
  for (int k = 0; k < N; k += kDraws) {
    const std::array<std::uint32_t, 4> draw =
        draw_block(draws, channels ? unit / kDraws + k / kDraws : 0, sample, step);
    for (int j = 0; j < kDraws; ++j) {
      const float one =
          draw[static_cast<std::size_t>(j)] >> 8 < draws.threshold ? 0.0f : draws.scale;
      if constexpr (N == 1) {
        if (j == unit % kDraws) factor[0] = one;
      } else {
        factor[k + j] = channels || (k == 0 && j == 0) ? one : factor[0];
      }
    }
  }
}

// x is [samples][rows][c]; what a thread draws serves all its rows. blockIdx.z walks the samples.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    drop_units_kernel(DropoutDraws draws, bool channels, const T* x, T* y, std::int64_t samples,
                      std::int64_t rows, std::int64_t c, std::int64_t offset,
                      const StepScalars* scalars) {
  const std::int64_t channel = tile_channel<N>();
  if (channel >= c) return;
  for (std::int64_t s = blockIdx.z; s < samples; s += gridDim.z) {
    const std::uint64_t sample = scalars->first_sample + static_cast<std::uint64_t>(offset + s);
    float factor[N] = {};
    draw_factors<N>(draws, channels, channel, sample, scalars->update, factor);
    for (std::int64_t row = tile_row(); row < rows; row += tile_row_step()) {
      const std::int64_t at = (s * rows + row) * c + channel;
      float v[N];
      load<N>(x + at, v);
      for (int k = 0; k < N; ++k) v[k] *= factor[k];
      store<N>(v, y + at);
    }
  }
}

DropoutDraws draws_of(const graph::Dropout& op) {
  DropoutDraws draws = {};
  draws.key[0] = static_cast<std::uint32_t>(op.seed) ^
                 (static_cast<std::uint32_t>(trainer::Stream::kDropout) << 24);
  draws.key[1] = static_cast<std::uint32_t>(op.seed >> 32);
  draws.layer = op.layer;
  draws.threshold = static_cast<std::uint32_t>(static_cast<double>(op.rate) * 16777216.0);
  draws.scale = 1.0f / (1.0f - op.rate);
  return draws;
}

template <class From, class To, int N>
__global__ void __launch_bounds__(kThreads)
    preprocess_kernel(const From* x, To* y, const float* a, const float* b, std::int64_t elements,
                      unsigned channels, bool reverse) {
  const std::int64_t i = first_element<N>();
  if (i >= elements) return;
  auto c = static_cast<unsigned>(i % channels);
  float v[N];
  for (int k = 0; k < N; ++k) {
    v[k] = 0;
    if (i + k >= elements) continue;
    const std::int64_t from = reverse ? i + k - c + (channels - 1 - c) : i + k;
    v[k] = static_cast<float>(x[from]) * a[c] + b[c];
    c = c + 1 == channels ? 0 : c + 1;
  }
  store<N>(v, elements - i, y + i);
}

// A box of [samples][rows][pixels][units], pitches in units.
struct Box {
  unsigned rows, pixels;
  std::int64_t units;
  std::int64_t from_pitch[3], to_pitch[3];  // sample, row, pixel
};

template <class Unit>
__global__ void __launch_bounds__(kThreads)
    copy_box_kernel(const Unit* from, Unit* to, Box box, unsigned pixels) {
  const unsigned p = blockIdx.x * blockDim.y + threadIdx.y;
  if (p >= pixels) return;
  const unsigned row = p / box.pixels, sample = row / box.rows;
  const std::int64_t place[3] = {sample, row - sample * box.rows, p - row * box.pixels};
  for (int k = 0; k < 3; ++k) {
    from += place[k] * box.from_pitch[k];
    to += place[k] * box.to_pitch[k];
  }
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
       i < box.units; i += step) {
    to[i] = from[i];
  }
}

struct alignas(16) Unit16 {
  std::uint64_t half[2];
};

template <class F>
void with_unit(std::int64_t bytes, const F& f) {
  if (bytes == 16) return f.template operator()<Unit16>();
  if (bytes == 8) return f.template operator()<std::uint64_t>();
  if (bytes == 4) return f.template operator()<std::uint32_t>();
  if (bytes == 2) return f.template operator()<std::uint16_t>();
  f.template operator()<std::uint8_t>();
}

void launch_accumulate(const float* from, float* to, bool assign, const StepScalars* scalars,
                       std::int64_t count, cudaStream_t stream) {
  const bool vectors = aligned({from, to});
  launch("accumulate", vectors ? accumulate_kernel<4> : accumulate_kernel<1>,
         grid_over(count, vectors ? 4 : 1), kThreads, 0, stream, from, to, assign, scalars, count);
}

}  // namespace

void convert(const void* from, DType from_type, void* to, DType to_type, std::int64_t count,
             cudaStream_t stream) {
  const bool vectors = aligned({from, to});
  with_type(from_type, [&]<class From>() {
    with_type(to_type, [&]<class To>() {
      constexpr int N = std::max(kVector<From>, kVector<To>);
      launch("convert", vectors ? convert_kernel<From, To, N> : convert_kernel<From, To, 1>,
             grid_over(count, vectors ? N : 1), kThreads, 0, stream, static_cast<const From*>(from),
             static_cast<To*>(to), count);
    });
  });
}

void add(std::span<const void* const> from, void* to, DType type, std::int64_t count,
         cudaStream_t stream) {
  Inputs inputs = {};
  bool vectors = aligned({to});
  for (std::size_t i = 0; i < from.size(); ++i) {
    inputs.at[i] = from[i];
    vectors = vectors && aligned({from[i]});
  }
  with_vectors(type, vectors, [&]<class T, int N>() {
    launch("add", add_kernel<T, N>, grid_over(count, N), kThreads, 0, stream, inputs,
           static_cast<int>(from.size()), static_cast<T*>(to), count);
  });
}

void accumulate(const float* from, float* to, bool assign, std::int64_t count,
                cudaStream_t stream) {
  launch_accumulate(from, to, assign, nullptr, count, stream);
}

void accumulate_by_scalars(const float* from, float* to, const StepScalars* scalars,
                           std::int64_t count, cudaStream_t stream) {
  launch_accumulate(from, to, false, scalars, count, stream);
}

void activate(const graph::Activation& activation, const void* x, void* y, DType type,
              std::int64_t count, cudaStream_t stream) {
  with_vectors(type, aligned({x, y}), [&]<class T, int N>() {
    launch("activate", activate_kernel<T, N>, grid_over(count, N), kThreads, 0, stream, activation,
           static_cast<const T*>(x), static_cast<T*>(y), count);
  });
}

void activate_backward(const graph::Activation& activation, const void* s, const void* dy, void* dx,
                       DType type, std::int64_t count, cudaStream_t stream) {
  with_vectors(type, aligned({s, dy, dx}), [&]<class T, int N>() {
    launch("activate_backward", activate_backward_kernel<T, N>, grid_over(count, N), kThreads, 0,
           stream, activation, static_cast<const T*>(s), static_cast<const T*>(dy),
           static_cast<T*>(dx), count);
  });
}

void add_activate(const graph::Activation& activation, const void* a, const void* b, void* y,
                  DType type, std::int64_t count, cudaStream_t stream) {
  with_vectors(type, aligned({a, b, y}), [&]<class T, int N>() {
    launch("add_activate", add_activate_kernel<T, N>, grid_over(count, N), kThreads, 0, stream,
           activation, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y),
           count);
  });
}

void add_activate_backward(const graph::Activation& activation, const void* s, const void* a,
                           const void* b, void* dx, DType type, std::int64_t count,
                           cudaStream_t stream) {
  with_vectors(type, aligned({s, a, b, dx}), [&]<class T, int N>() {
    launch("add_activate_backward", add_activate_backward_kernel<T, N>, grid_over(count, N),
           kThreads, 0, stream, activation, static_cast<const T*>(s), static_cast<const T*>(a),
           static_cast<const T*>(b), static_cast<T*>(dx), count);
  });
}

void dropout(const graph::Dropout& op, const void* x, void* y, DType type, std::int64_t samples,
             std::int64_t elements, std::int64_t offset, const StepScalars* scalars,
             cudaStream_t stream) {
  dim3 grid = grid_over(elements, 4);
  grid.y = grid_y(samples);
  with_vectors(type, aligned({x, y}) && elements % 4 == 0, [&]<class T, int N>() {
    launch("dropout", dropout_kernel<T, N>, grid, kThreads, 0, stream, draws_of(op),
           static_cast<const T*>(x), static_cast<T*>(y), samples, elements, offset, scalars);
  });
}

void drop_units(const graph::Dropout& op, const void* x, void* y, DType type, std::int64_t samples,
                std::int64_t rows, std::int64_t c, std::int64_t offset, const StepScalars* scalars,
                cudaStream_t stream) {
  const bool channels = op.unit == graph::Dropout::Unit::kChannel;
  with_row_vectors(type, c, aligned({x, y}), [&]<class T, int N>() {
    RowTiles tiles = row_tiles(rows, c / N, 8, 1 << 20);
    tiles.grid.z = grid_y(samples);
    launch("drop_units", drop_units_kernel<T, N>, tiles.grid, tiles.block, 0, stream, draws_of(op),
           channels, static_cast<const T*>(x), static_cast<T*>(y), samples, rows, c, offset,
           scalars);
  });
}

void preprocess(const void* x, DType from, void* y, DType to, const float* a, const float* b,
                std::int64_t count, std::int64_t channels, bool reverse_channels,
                cudaStream_t stream) {
  const std::int64_t elements = count * channels;
  with_vectors(to, aligned({y}), [&]<class To, int N>() {
    const auto run = [&]<class From>(const From* pixels) {
      launch("preprocess", preprocess_kernel<From, To, N>, grid_over(elements, N), kThreads, 0,
             stream, pixels, static_cast<To*>(y), a, b, elements, channels, reverse_channels);
    };
    if (from == DType::kUInt8) return run(static_cast<const std::uint8_t*>(x));
    run(static_cast<const float*>(x));
  });
}

void copy_box(const void* from, const BoxPitch& from_pitch, void* to, const BoxPitch& to_pitch,
              std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t bytes,
              cudaStream_t stream) {
  if (n * h * w * bytes == 0) return;
  // What lies without gaps on both sides is one long pixel.
  if (from_pitch.pixel == bytes && to_pitch.pixel == bytes) {
    bytes *= w;
    w = 1;
    if (from_pitch.row == bytes && to_pitch.row == bytes) {
      bytes *= h;
      h = 1;
    }
  }
  std::int64_t unit = std::gcd(std::int64_t{16}, bytes);
  const auto extents = {from_pitch.sample,
                        from_pitch.row,
                        from_pitch.pixel,
                        to_pitch.sample,
                        to_pitch.row,
                        to_pitch.pixel,
                        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from) % 16),
                        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 16)};
  for (const std::int64_t extent : extents) unit = std::gcd(unit, extent);
  const Box box = {static_cast<unsigned>(h),
                   static_cast<unsigned>(w),
                   bytes / unit,
                   {from_pitch.sample / unit, from_pitch.row / unit, from_pitch.pixel / unit},
                   {to_pitch.sample / unit, to_pitch.row / unit, to_pitch.pixel / unit}};
  const auto pixels = pixel_count(n * h * w);
  const auto x = static_cast<unsigned>(std::min<std::int64_t>(box.units, kThreads));
  const unsigned y = kThreads / x;
  const dim3 grid((pixels + y - 1) / y, grid_y(divide_up(box.units, x)));
  with_unit(unit, [&]<class Unit>() {
    launch("copy_box", copy_box_kernel<Unit>, grid, dim3(x, y), 0, stream,
           static_cast<const Unit*>(from), static_cast<Unit*>(to), box, pixels);
  });
}

}  // namespace trainer::backend::cuda
