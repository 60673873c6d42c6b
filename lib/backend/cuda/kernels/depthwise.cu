#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/depthwise.h"
#include "backend/cuda/kernels/depthwise_tiles.h"
#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/window.cuh"

namespace trainer::backend::cuda {
namespace {

using graph::Activation;

constexpr int kRun = 4;   // outputs of one row per thread, for one read of the kernel
constexpr int kTaps = 9;  // positions of the kernel whose gradients a thread sums at once

// The device's form of DepthwiseShape: input channels, output channels, and outputs an input.
struct Channels {
  std::int64_t in, out;
  int multiplier;
  // N output channels from `channel` on read N input channels from here on; N is 1 unless the
  // multiplier is 1.
  __device__ std::int64_t input_channel(std::int64_t channel) const { return channel / multiplier; }
};

// threadIdx.x runs over groups of output channels, threadIdx.y over runs of outputs of one row.
template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    depthwise_kernel(Window2 window, Channels c, const T* x, const float* kernel, const float* bias,
                     Activation activation, T* y, unsigned runs, int runs_per_row) {
  const unsigned run = tile_pixel();
  const std::int64_t channel = tile_channel<N>();
  if (run >= runs || channel >= c.out) return;
  const Pixel o = pixel_at(run, window.y.output, runs_per_row);
  const int first = o.x * kRun;
  float sum[kRun][N] = {};
  if (bias != nullptr) {
    for (int r = 0; r < kRun; ++r) load<N>(bias + channel, sum[r]);
  }
  for (int i = 0; i < window.y.size; ++i) {
    const int row = window.y.position(o.y, i);
    if (!window.y.inside(row)) continue;
    const T* from =
        x + (o.image * window.y.input + row) * window.x.input * c.in + c.input_channel(channel);
    for (int j = 0; j < window.x.size; ++j) {
      float w[N];
      load<N>(kernel + (i * window.x.size + j) * c.out + channel, w);
      for (int r = 0; r < kRun; ++r) {
        const int column = window.x.position(first + r, j);
        if (!window.x.inside(column)) continue;
        float v[N];
        load<N>(from + column * c.in, v);
        for (int k = 0; k < N; ++k) sum[r][k] += v[k] * w[k];
      }
    }
  }
  const std::int64_t to = (o.image * window.y.output + o.y) * window.x.output + first;
  unrolled<kRun>([&](auto r) {
    if (first + r >= window.x.output) return;
    activate(activation, sum[r]);
    store<N>(sum[r], y + (to + r) * c.out + channel);
  });
}

// One pixel of dx a thread.
template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    backward_data_kernel(Window2 window, Channels c, const T* dy, const float* kernel, T* dx,
                         unsigned pixels) {
  const unsigned p = tile_pixel();
  const std::int64_t channel = tile_channel<N>();
  if (p >= pixels || channel >= c.in) return;
  const Pixel at = pixel_at(p, window.y.input, window.x.input);
  float sum[N] = {};
  window.y.for_outputs(at.y, [&](int oy, int i) {
    window.x.for_outputs(at.x, [&](int ox, int j) {
      const std::int64_t output = (at.image * window.y.output + oy) * window.x.output + ox;
      const int multiplier = N > 1 ? 1 : c.multiplier;
      for (int m = 0; m < multiplier; ++m) {
        const std::int64_t out = channel * multiplier + m;
        float g[N], w[N];
        load<N>(dy + output * c.out + out, g);
        load<N>(kernel + (i * window.x.size + j) * c.out + out, w);
        for (int k = 0; k < N; ++k) sum[k] += g[k] * w[k];
      }
    });
  });
  store<N>(sum, dx + p * c.in + channel);
}

// partial[blockIdx.x][kh * kw][out] for kTaps positions of the kernel from `first_tap` on.
template <class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    backward_weights_kernel(Window2 window, Channels c, const T* x, const T* dy, float* partial,
                            unsigned outputs, int first_tap) {
  const std::int64_t channel = tile_channel<N>();
  const int taps = window.y.size * window.x.size;
  float sum[kTaps][N] = {};
  if (channel < c.out) {
    x += c.input_channel(channel);
    for (auto p = static_cast<unsigned>(tile_row()); p < outputs;
         p += static_cast<unsigned>(tile_row_step())) {
      const Pixel o = pixel_at(p, window.y.output, window.x.output);
      float g[N];
      load<N>(dy + p * c.out + channel, g);
      int i = first_tap / window.x.size, j = first_tap % window.x.size;
      for (int t = 0; t < kTaps; ++t) {
        const int row = window.y.position(o.y, i), column = window.x.position(o.x, j);
        if (first_tap + t < taps && window.y.inside(row) && window.x.inside(column)) {
          float v[N];
          load<N>(x + ((o.image * window.y.input + row) * window.x.input + column) * c.in, v);
          for (int k = 0; k < N; ++k) sum[t][k] += v[k] * g[k];
        }
        if (++j == window.x.size) {
          j = 0;
          ++i;
        }
      }
    }
  }
  for (int t = 0; t < kTaps; ++t) {
    if (first_tap + t >= taps) break;
    sum_over_y<N>(sum[t], shared_memory<float>());
    if (threadIdx.y != 0 || channel >= c.out) continue;
    float* to = partial + (blockIdx.x * taps + first_tap + t) * c.out + channel;
    for (int k = 0; k < N; ++k) to[k] = sum[t][k];
  }
}

Channels make_channels(const DepthwiseShape& shape) {
  return {shape.c, shape.c * shape.multiplier, static_cast<int>(shape.multiplier)};
}

// Vectors of several channels need a multiplier of 1.
template <class F>
void with_channels(DType type, const DepthwiseShape& shape, bool all_aligned, const F& f) {
  with_row_vectors(type, shape.c, all_aligned && shape.multiplier == 1, f);
}

// Gradients of weights take vectors of 4, so that the sums of kTaps positions fit into registers.
constexpr std::int64_t kWeightsVector = 4;

}  // namespace

void depthwise(const DepthwiseShape& shape, const void* x, const float* kernel, const float* bias,
               const Activation& activation, void* y, DType type, cudaStream_t stream) {
  if (has_tiles(shape, {x, kernel, bias, y})) {
    return depthwise_tiles(shape, x, kernel, bias, activation, y, type, stream);
  }
  const Window2 window = make_window(shape.window, shape.h, shape.w);
  const Channels c = make_channels(shape);
  const std::int64_t runs_per_row = divide_up(window.x.output, kRun);
  const std::int64_t runs = shape.n * window.y.output * runs_per_row;
  with_channels(type, shape, aligned({x, kernel, bias, y}), [&]<class T, int N>() {
    const RowTiles tiles = pixel_tiles(runs, c.out / N);
    launch("depthwise", depthwise_kernel<T, N>, tiles.grid, tiles.block, 0, stream, window, c,
           static_cast<const T*>(x), kernel, bias, activation, static_cast<T*>(y),
           pixel_count(runs), static_cast<int>(runs_per_row));
  });
}

void depthwise_backward_data(const DepthwiseShape& shape, const void* dy, const float* kernel,
                             void* dx, DType type, cudaStream_t stream) {
  if (has_tiles(shape, {dy, kernel, dx})) {
    return depthwise_tiles_backward_data(shape, dy, kernel, dx, type, stream);
  }
  const Window2 window = make_window(shape.window, shape.h, shape.w);
  const std::int64_t pixels = shape.n * shape.h * shape.w;
  with_channels(type, shape, aligned({dy, kernel, dx}), [&]<class T, int N>() {
    const RowTiles tiles = pixel_tiles(pixels, shape.c / N);
    launch("depthwise_backward_data", backward_data_kernel<T, N>, tiles.grid, tiles.block, 0,
           stream, window, make_channels(shape), static_cast<const T*>(dy), kernel,
           static_cast<T*>(dx), pixel_count(pixels));
  });
}

std::int64_t depthwise_scratch(const DepthwiseShape& shape) {
  const Window2 window = make_window(shape.window, shape.h, shape.w);
  const std::int64_t out = shape.c * shape.multiplier;
  const std::int64_t outputs = shape.n * window.y.output * window.x.output;
  const std::int64_t bytes = most_parts(outputs, out) * window.y.size * window.x.size * out *
                             static_cast<std::int64_t>(sizeof(float));
  return has_tiles(shape, {}) ? std::max(bytes, depthwise_tiles_scratch(shape)) : bytes;
}

void depthwise_backward_weights(const DepthwiseShape& shape, const void* x, const void* dy,
                                float* dkernel, DType type, void* scratch, cudaStream_t stream) {
  if (has_tiles(shape, {x, dy})) {
    return depthwise_tiles_backward_weights(shape, x, dy, dkernel, type, scratch, stream);
  }
  const Window2 window = make_window(shape.window, shape.h, shape.w);
  const Channels c = make_channels(shape);
  const std::int64_t outputs = shape.n * window.y.output * window.x.output;
  const int taps = window.y.size * window.x.size;
  const bool vectors = aligned({x, dy}) && shape.multiplier == 1 && shape.c % kWeightsVector == 0;
  auto* partial = static_cast<float*>(scratch);
  const auto run = [&]<class T, int N>() {
    const RowTiles tiles = partial_tiles(outputs, c.out / N);
    for (int first_tap = 0; first_tap < taps; first_tap += kTaps) {
      launch("depthwise_backward_weights", backward_weights_kernel<T, N>, tiles.grid, tiles.block,
             tiles.threads() * N * sizeof(float), stream, window, c, static_cast<const T*>(x),
             static_cast<const T*>(dy), partial, pixel_count(outputs), first_tap);
    }
    sum_parts(partial, tiles.grid.x, taps * c.out, dkernel, stream);
  };
  with_type(type, [&]<class T>() {
    if (vectors) return run.template operator()<T, kWeightsVector>();
    run.template operator()<T, 1>();
  });
}

}  // namespace trainer::backend::cuda
