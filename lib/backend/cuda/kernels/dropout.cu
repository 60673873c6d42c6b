#include "backend/cuda/kernels/dropout.h"
#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/reduce.cuh"
#include "base/numbers/random.h"

namespace trainer::backend::cuda {
namespace {

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

// Four elements per thread, which share one Philox block; blockIdx.y walks the samples.
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
      const auto bits = draw[k] >> 8;
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
      const float one = draw[j] >> 8 < draws.threshold ? 0.0f : draws.scale;
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

DropoutDraws make_draws(const graph::Dropout& op) {
  DropoutDraws draws = {};
  draws.key[0] = static_cast<std::uint32_t>(op.seed) ^
                 (static_cast<std::uint32_t>(trainer::Stream::kDropout) << 24);
  draws.key[1] = static_cast<std::uint32_t>(op.seed >> 32);
  draws.layer = op.layer;
  draws.threshold = static_cast<std::uint32_t>(static_cast<double>(op.rate) * 16777216.0);
  draws.scale = 1.0f / (1.0f - op.rate);
  return draws;
}

}  // namespace

void dropout(const graph::Dropout& op, const void* x, void* y, DType type, std::int64_t samples,
             std::int64_t elements, std::int64_t offset, const StepScalars* scalars,
             cudaStream_t stream) {
  dim3 grid = grid_over(elements, 4);
  grid.y = grid_y(samples);
  with_vectors(type, aligned({x, y}) && elements % 4 == 0, [&]<class T, int N>() {
    launch("dropout", dropout_kernel<T, N>, grid, kThreads, 0, stream, make_draws(op),
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
    launch("drop_units", drop_units_kernel<T, N>, tiles.grid, tiles.block, 0, stream,
           make_draws(op), channels, static_cast<const T*>(x), static_cast<T*>(y), samples, rows, c,
           offset, scalars);
  });
}

}  // namespace trainer::backend::cuda
