// Reductions in a fixed order: over a warp and a block, and over rows of [rows, c] in two steps.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/launch.h"

namespace trainer::backend::cuda {

inline constexpr int kWarp = 32;

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// combine(..) over the threads of a warp; all of them get the result.
template <class T, class Combine>
__device__ inline T over_warp(T value, const Combine& combine) {
  for (int d = kWarp / 2; d > 0; d /= 2) value = combine(value, __shfl_xor_sync(~0u, value, d));
  return value;
}

// combine(..) over the threads of a one-dimensional block of whole warps; all threads get the
// result. `shared` holds 32 values of T and may be used again by the next call.
template <class T, class Combine>
__device__ inline T over_block(T value, T identity, T* shared, const Combine& combine) {
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  value = over_warp(value, combine);
  __syncthreads();  // earlier readers of `shared` are done
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  return over_warp(lane < blockDim.x / kWarp ? shared[lane] : identity, combine);
}

// How blocks cover [rows, c]: threadIdx.x runs over groups of N channels, threadIdx.y over rows;
// blockIdx.x over parts of the rows, blockIdx.y over parts of the channels.
struct RowTiles {
  dim3 grid, block;
  std::size_t threads() const { return std::size_t{block.x} * block.y; }
};
// Blocks walk `rows` with a stride of all blocks' rows, `rows_per_thread` each if the grid then has
// at most `most_blocks` blocks. Depends on its arguments alone, not on the GPU.
inline RowTiles row_tiles(std::int64_t rows, std::int64_t groups, std::int64_t rows_per_thread,
                          std::int64_t most_blocks) {
  const std::int64_t parts = divide_up(groups, kWarp), x = divide_up(groups, parts);
  const std::int64_t y = std::min(kThreads / x, std::max<std::int64_t>(rows, 1));
  const std::int64_t max_blocks = std::max<std::int64_t>(most_blocks / parts, 1);
  const std::int64_t blocks = std::min(divide_up(rows, y * rows_per_thread), max_blocks);
  RowTiles tiles;
  tiles.grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(parts));
  tiles.block = dim3(static_cast<unsigned>(x), static_cast<unsigned>(y));
  return tiles;
}
// Tiles for the first step of a sum over rows: each block writes one row of partial results.
inline RowTiles partial_tiles(std::int64_t rows, std::int64_t groups) {
  return row_tiles(rows, groups, 8, 1024);
}

// The most rows of partial results that [rows, c] makes, whatever the vectors.
inline std::int64_t most_parts(std::int64_t rows, std::int64_t c) {
  unsigned max_tiles = 0;
  for (const std::int64_t vector : {1, 4, 8}) {
    if (c % vector == 0) max_tiles = std::max(max_tiles, partial_tiles(rows, c / vector).grid.x);
  }
  return max_tiles;
}

// Returns the first channel of the running thread in such a grid.
template <int N>
__device__ inline std::int64_t tile_channel() {
  return (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
}
__device__ inline std::int64_t tile_row() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}
__device__ inline std::int64_t tile_row_step() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.y;
}

// Folds the threads of a block over threadIdx.y, as a tree: calls merge(thread, other) with numbers
// of threads, which must combine what the thread `other` has stored in shared memory into what
// `thread` holds and has stored. All threads of the block must come here.
template <class Merge>
__device__ inline void fold_over_y(const Merge& merge) {
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  unsigned half = 1;
  while (half * 2 < blockDim.y) half *= 2;
  for (; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half && threadIdx.y + half < blockDim.y) {
      merge(thread, thread + half * blockDim.x);
    }
  }
}

// v = the sum over threadIdx.y, for threads with threadIdx.y 0. `shared` holds N floats per thread.
template <int N>
__device__ inline void sum_over_y(float (&v)[N], float* shared) {
  const unsigned threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
  __syncthreads();  // earlier readers of `shared` are done
  for (int k = 0; k < N; ++k) shared[k * threads + thread] = v[k];
  fold_over_y([&](unsigned, unsigned other) {
    for (int k = 0; k < N; ++k) {
      v[k] += shared[k * threads + other];
      shared[k * threads + thread] = v[k];
    }
  });
}

// Calls use(load(part)) for the parts of this thread, which threadIdx.y counts, in ascending order.
// Four loads are in progress at the same time (see for_row_groups() in batch_norm.cu).
template <class Load, class Use>
__device__ inline void for_parts(std::int64_t parts, const Load& load, const Use& use) {
  constexpr int kLoads = 4;
  const std::int64_t step = blockDim.y;
  std::int64_t part = threadIdx.y;
  for (; part + (kLoads - 1) * step < parts; part += kLoads * step) {
    decltype(load(part)) values[kLoads];
    unrolled<kLoads>([&](auto i) { values[i] = load(part + i * step); });
    unrolled<kLoads>([&](auto i) { use(values[i]); });
  }
  for (; part < parts; part += step) use(load(part));
}

// The second step: to[columns] = sum over parts of from[parts][columns].
void sum_parts(const float* from, std::int64_t parts, std::int64_t columns, float* to,
               cudaStream_t stream);

}  // namespace trainer::backend::cuda
