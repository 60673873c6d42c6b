#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/pool.h"
#include "backend/cuda/kernels/window.cuh"

namespace trainer::backend::cuda {
namespace {

using graph::Activation;

// N channels of a pooling's winners.
template <int N>
using Winners = Pack<std::uint8_t, N>;

// Returns whether v replaces the maximum so far. The first of equal values stays. A NaN replaces
// all numbers and stays too, so that it reaches the loss.
__device__ inline bool wins(float v, float best) { return !(v <= best) && best == best; }

// Calls f(window position, element of the pixel) for the pixels inside the image; `channel` is
// added to the element.
template <class F>
__device__ inline void for_window(const Window2& window, const Pixel& o, std::int64_t c,
                                  std::int64_t channel, const F& f) {
  for (int i = 0; i < window.y.size; ++i) {
    const int y = window.y.position(o.y, i);
    if (!window.y.inside(y)) continue;
    for (int j = 0; j < window.x.size; ++j) {
      const int x = window.x.position(o.x, j);
      if (!window.x.inside(x)) continue;
      f(i * window.x.size + j, ((o.image * window.y.input + y) * window.x.input + x) * c + channel);
    }
  }
}

// Calls f(window position, output pixel's element) for the windows that hold a pixel of the image,
// in the order of the outputs.
template <class F>
__device__ inline void for_outputs(const Window2& window, const Pixel& p, std::int64_t c,
                                   std::int64_t channel, const F& f) {
  window.y.for_outputs(p.y, [&](int oy, int i) {
    window.x.for_outputs(p.x, [&](int ox, int j) {
      f(i * window.x.size + j, oy, ox,
        ((p.image * window.y.output + oy) * window.x.output + ox) * c + channel);
    });
  });
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    max_pool_kernel(Window2 window, const T* x, T* y, std::uint8_t* index, unsigned pixels,
                    std::int64_t c) {
  const unsigned p = tile_pixel();
  const std::int64_t channel = tile_channel<N>();
  if (p >= pixels || channel >= c) return;
  float best[N];
  Winners<N> winner;
  bool first = true;
  for (int k = 0; k < N; ++k) best[k] = -INFINITY;
  for (int k = 0; k < N; ++k) winner.value[k] = 0;
  for_window(window, pixel_at(p, window.y.output, window.x.output), c, channel,
             [&](int position, std::int64_t at) {
               float v[N];
               load<N>(x + at, v);
               for (int k = 0; k < N; ++k) {
                 if (!first && !wins(v[k], best[k])) continue;
                 best[k] = v[k];
                 winner.value[k] = static_cast<std::uint8_t>(position);
               }
               first = false;
             });
  const std::int64_t to = p * c + channel;
  store<N>(best, y + to);
  if (index != nullptr) store_pack<std::uint8_t, N>(index + to, winner);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    average_pool_kernel(Window2 window, const T* x, T* y, unsigned pixels, std::int64_t c) {
  const unsigned p = tile_pixel();
  const std::int64_t channel = tile_channel<N>();
  if (p >= pixels || channel >= c) return;
  float sum[N] = {};
  int count = 0;
  for_window(window, pixel_at(p, window.y.output, window.x.output), c, channel,
             [&](int, std::int64_t at) {
               float v[N];
               load<N>(x + at, v);
               for (int k = 0; k < N; ++k) sum[k] += v[k];
               ++count;
             });
  for (int k = 0; k < N; ++k) sum[k] = count > 0 ? sum[k] / static_cast<float>(count) : 0.0f;
  store<N>(sum, y + p * c + channel);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    max_pool_backward_kernel(Window2 window, const T* dy, const std::uint8_t* index, const T* y,
                             Activation activation, T* dx, unsigned pixels, std::int64_t c) {
  const unsigned p = tile_pixel();
  const std::int64_t channel = tile_channel<N>();
  if (p >= pixels || channel >= c) return;
  float sum[N] = {};
  for_outputs(window, pixel_at(p, window.y.input, window.x.input), c, channel,
              [&](int position, int, int, std::int64_t at) {
                float g[N];
                load<N>(dy + at, g);
                if (y != nullptr) {
                  float saved[N];
                  load<N>(y + at, saved);
                  activate_backward_from_output(activation, saved, g);
                }
                const auto winner = load_pack<std::uint8_t, N>(index + at);
                for (int k = 0; k < N; ++k) sum[k] += winner.value[k] == position ? g[k] : 0.0f;
              });
  store<N>(sum, dx + p * c + channel);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    average_pool_backward_kernel(Window2 window, const T* dy, const T* y, Activation activation,
                                 T* dx, unsigned pixels, std::int64_t c) {
  const unsigned p = tile_pixel();
  const std::int64_t channel = tile_channel<N>();
  if (p >= pixels || channel >= c) return;
  float sum[N] = {};
  for_outputs(window, pixel_at(p, window.y.input, window.x.input), c, channel,
              [&](int, int oy, int ox, std::int64_t at) {
                float g[N];
                load<N>(dy + at, g);
                if (y != nullptr) {
                  float saved[N];
                  load<N>(y + at, saved);
                  activate_backward_from_output(activation, saved, g);
                }
                const auto count = static_cast<float>(window.y.count(oy) * window.x.count(ox));
                for (int k = 0; k < N; ++k) sum[k] += g[k] / count;
              });
  store<N>(sum, dx + p * c + channel);
}

// One block takes one image (blockIdx.x) and a part of the channels; threadIdx.y runs over pixels.
template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    global_average_kernel(const T* x, T* y, std::int64_t pixels, std::int64_t c) {
  const std::int64_t channel = tile_channel<N>();
  float sum[N] = {};
  x += blockIdx.x * pixels * c + channel;
  if (channel < c) {
    for (std::int64_t p = threadIdx.y; p < pixels; p += blockDim.y) {
      float v[N];
      load<N>(x + p * c, v);
      for (int k = 0; k < N; ++k) sum[k] += v[k];
    }
  }
  sum_over_y<N>(sum, shared_memory<float>());
  if (threadIdx.y != 0 || channel >= c) return;
  for (int k = 0; k < N; ++k) sum[k] /= static_cast<float>(pixels);
  store<N>(sum, y + blockIdx.x * c + channel);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    global_average_backward_kernel(const T* dy, T* dx, std::int64_t pixels, std::int64_t c) {
  const std::int64_t channel = tile_channel<N>();
  if (channel >= c) return;
  float g[N];
  load<N>(dy + blockIdx.x * c + channel, g);
  for (int k = 0; k < N; ++k) g[k] /= static_cast<float>(pixels);
  dx += blockIdx.x * pixels * c + channel;
  for (std::int64_t p = threadIdx.y; p < pixels; p += blockDim.y) store<N>(g, dx + p * c);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    global_max_kernel(const T* x, T* y, std::int64_t pixels, std::int64_t c) {
  const std::int64_t channel = tile_channel<N>();
  float best[N];
  for (int k = 0; k < N; ++k) best[k] = -INFINITY;
  x += blockIdx.x * pixels * c + channel;
  if (channel < c) {
    for (std::int64_t p = threadIdx.y; p < pixels; p += blockDim.y) {
      float v[N];
      load<N>(x + p * c, v);
      for (int k = 0; k < N; ++k) best[k] = wins(v[k], best[k]) ? v[k] : best[k];
    }
  }
  float* shared = shared_memory<float>();
  const unsigned threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (int k = 0; k < N; ++k) shared[k * threads + thread] = best[k];
  fold_over_y([&](unsigned, unsigned other) {
    for (int k = 0; k < N; ++k) {
      const float v = shared[k * threads + other];
      best[k] = wins(v, best[k]) ? v : best[k];
      shared[k * threads + thread] = best[k];
    }
  });
  if (threadIdx.y == 0 && channel < c) store<N>(best, y + blockIdx.x * c + channel);
}

// First finds each channel's first pixel that equals y, then writes dx.
template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    global_max_backward_kernel(const T* dy, const T* x, const T* y, T* dx, std::int64_t pixels,
                               std::int64_t c) {
  const std::int64_t channel = tile_channel<N>();
  const auto count = static_cast<std::int32_t>(pixels);
  const std::int64_t image = blockIdx.x * pixels * c + channel;
  std::int32_t first[N];
  float best[N] = {}, g[N] = {};
  for (int k = 0; k < N; ++k) first[k] = count;
  if (channel < c) {
    load<N>(y + blockIdx.x * c + channel, best);
    load<N>(dy + blockIdx.x * c + channel, g);
    for (auto p = static_cast<std::int32_t>(threadIdx.y); p < count;
         p += static_cast<std::int32_t>(blockDim.y)) {
      float v[N];
      load<N>(x + image + p * c, v);
      for (int k = 0; k < N; ++k) first[k] = v[k] == best[k] && p < first[k] ? p : first[k];
    }
  }
  auto* shared = shared_memory<std::int32_t>();
  const unsigned threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (int k = 0; k < N; ++k) shared[k * threads + thread] = first[k];
  fold_over_y([&](unsigned, unsigned other) {
    for (int k = 0; k < N; ++k) {
      const std::int32_t p = shared[k * threads + other];
      first[k] = p < first[k] ? p : first[k];
      shared[k * threads + thread] = first[k];
    }
  });
  __syncthreads();
  if (channel >= c) return;
  for (int k = 0; k < N; ++k) first[k] = shared[k * threads + threadIdx.x];
  for (auto p = static_cast<std::int32_t>(threadIdx.y); p < count;
       p += static_cast<std::int32_t>(blockDim.y)) {
    float v[N];
    for (int k = 0; k < N; ++k) v[k] = p == first[k] ? g[k] : 0.0f;
    store<N>(v, dx + image + p * c);
  }
}

// Blocks of the global poolings: one image each, and a part of the channels.
RowTiles image_tiles(std::int64_t n, std::int64_t pixels, std::int64_t groups) {
  RowTiles tiles = row_tiles(pixels, groups, 1, 1);
  tiles.grid.x = static_cast<unsigned>(n);
  return tiles;
}

std::int64_t count_outputs(const PoolShape& shape, const Window2& window) {
  return shape.n * window.y.output * window.x.output;
}

}  // namespace

void max_pool(const PoolShape& shape, const void* x, void* y, std::uint8_t* index, DType type,
              cudaStream_t stream) {
  const Window2 window = make_window(shape.window, shape.h, shape.w);
  const std::int64_t pixels = count_outputs(shape, window);
  with_row_vectors(type, shape.c, aligned({x, y, index}), [&]<class T, int N>() {
    const RowTiles tiles = pixel_tiles(pixels, shape.c / N);
    launch("max_pool", max_pool_kernel<T, N>, tiles.grid, tiles.block, 0, stream, window,
           static_cast<const T*>(x), static_cast<T*>(y), index, pixel_count(pixels), shape.c);
  });
}

void average_pool(const PoolShape& shape, const void* x, void* y, DType type, cudaStream_t stream) {
  const Window2 window = make_window(shape.window, shape.h, shape.w);
  const std::int64_t pixels = count_outputs(shape, window);
  with_row_vectors(type, shape.c, aligned({x, y}), [&]<class T, int N>() {
    const RowTiles tiles = pixel_tiles(pixels, shape.c / N);
    launch("average_pool", average_pool_kernel<T, N>, tiles.grid, tiles.block, 0, stream, window,
           static_cast<const T*>(x), static_cast<T*>(y), pixel_count(pixels), shape.c);
  });
}

void max_pool_backward(const PoolShape& shape, const void* dy, const std::uint8_t* index,
                       const void* y, const Activation& activation, void* dx, DType type,
                       cudaStream_t stream) {
  const std::int64_t pixels = shape.n * shape.h * shape.w;
  with_row_vectors(type, shape.c, aligned({dy, index, y, dx}), [&]<class T, int N>() {
    const RowTiles tiles = pixel_tiles(pixels, shape.c / N);
    launch("max_pool_backward", max_pool_backward_kernel<T, N>, tiles.grid, tiles.block, 0, stream,
           make_window(shape.window, shape.h, shape.w), static_cast<const T*>(dy), index,
           static_cast<const T*>(y), activation, static_cast<T*>(dx), pixel_count(pixels), shape.c);
  });
}

void average_pool_backward(const PoolShape& shape, const void* dy, const void* y,
                           const Activation& activation, void* dx, DType type,
                           cudaStream_t stream) {
  const std::int64_t pixels = shape.n * shape.h * shape.w;
  with_row_vectors(type, shape.c, aligned({dy, y, dx}), [&]<class T, int N>() {
    const RowTiles tiles = pixel_tiles(pixels, shape.c / N);
    launch("average_pool_backward", average_pool_backward_kernel<T, N>, tiles.grid, tiles.block, 0,
           stream, make_window(shape.window, shape.h, shape.w), static_cast<const T*>(dy),
           static_cast<const T*>(y), activation, static_cast<T*>(dx), pixel_count(pixels), shape.c);
  });
}

void global_average(const void* x, void* y, std::int64_t n, std::int64_t pixels, std::int64_t c,
                    DType type, cudaStream_t stream) {
  with_row_vectors(type, c, aligned({x, y}), [&]<class T, int N>() {
    const RowTiles tiles = image_tiles(n, pixels, c / N);
    launch("global_average", global_average_kernel<T, N>, tiles.grid, tiles.block,
           tiles.threads() * N * sizeof(float), stream, static_cast<const T*>(x),
           static_cast<T*>(y), pixels, c);
  });
}

void global_average_backward(const void* dy, void* dx, std::int64_t n, std::int64_t pixels,
                             std::int64_t c, DType type, cudaStream_t stream) {
  with_row_vectors(type, c, aligned({dy, dx}), [&]<class T, int N>() {
    const RowTiles tiles = image_tiles(n, pixels, c / N);
    launch("global_average_backward", global_average_backward_kernel<T, N>, tiles.grid, tiles.block,
           0, stream, static_cast<const T*>(dy), static_cast<T*>(dx), pixels, c);
  });
}

void global_max(const void* x, void* y, std::int64_t n, std::int64_t pixels, std::int64_t c,
                DType type, cudaStream_t stream) {
  with_row_vectors(type, c, aligned({x, y}), [&]<class T, int N>() {
    const RowTiles tiles = image_tiles(n, pixels, c / N);
    launch("global_max", global_max_kernel<T, N>, tiles.grid, tiles.block,
           tiles.threads() * N * sizeof(float), stream, static_cast<const T*>(x),
           static_cast<T*>(y), pixels, c);
  });
}

void global_max_backward(const void* dy, const void* x, const void* y, void* dx, std::int64_t n,
                         std::int64_t pixels, std::int64_t c, DType type, cudaStream_t stream) {
  with_row_vectors(type, c, aligned({dy, x, y, dx}), [&]<class T, int N>() {
    const RowTiles tiles = image_tiles(n, pixels, c / N);
    launch("global_max_backward", global_max_backward_kernel<T, N>, tiles.grid, tiles.block,
           tiles.threads() * N * sizeof(std::int32_t), stream, static_cast<const T*>(dy),
           static_cast<const T*>(x), static_cast<const T*>(y), static_cast<T*>(dx), pixels, c);
  });
}

}  // namespace trainer::backend::cuda
