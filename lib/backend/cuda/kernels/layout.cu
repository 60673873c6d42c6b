#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/layout.h"
#include "backend/cuda/kernels/reduce.cuh"

namespace trainer::backend::cuda {
namespace {

constexpr int kTile = 32, kTileRows = 8;

// to[columns][rows] = from[rows][columns] of each of gridDim.z matrices; pitches are from one row
// to the next, steps from one matrix to the next. Through a tile in shared memory, so that reads
// and writes are of whole lines.
template <class From, class To>
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_kernel(const From* from, To* to, std::int64_t rows, std::int64_t columns,
                     std::int64_t from_pitch, std::int64_t from_step, std::int64_t to_pitch,
                     std::int64_t to_step) {
  float* tile = shared_memory<float>();  // a column more, so that columns lie in different banks
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const unsigned x = threadIdx.x;
  from += blockIdx.z * from_step;
  to += blockIdx.z * to_step;
  for (unsigned y = threadIdx.y; y < kTile; y += kTileRows) {
    if (row + y < rows && column + x < columns) {
      tile[y * (kTile + 1) + x] = to_float(from[(row + y) * from_pitch + column + x]);
    }
  }
  __syncthreads();
  for (unsigned y = threadIdx.y; y < kTile; y += kTileRows) {
    if (column + y < columns && row + x < rows) {
      assign(to[(column + y) * to_pitch + row + x], tile[x * (kTile + 1) + y]);
    }
  }
}

template <class From, class To>
void transpose(const char* name, const From* from, To* to, std::int64_t matrices, std::int64_t rows,
               std::int64_t columns, std::int64_t from_pitch, std::int64_t from_step,
               std::int64_t to_pitch, std::int64_t to_step, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(divide_up(columns, kTile)),
                  static_cast<unsigned>(divide_up(rows, kTile)), static_cast<unsigned>(matrices));
  launch(name, transpose_kernel<From, To>, grid, dim3(kTile, kTileRows),
         kTile * (kTile + 1) * sizeof(float), stream, from, to, rows, columns, from_pitch,
         from_step, to_pitch, to_step);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    sum_rows_kernel(const T* from, std::int64_t rows, std::int64_t c, float* partial) {
  const std::int64_t channel = tile_channel<N>();
  float sum[N] = {};
  if (channel < c) {
    for (std::int64_t row = tile_row(); row < rows; row += tile_row_step()) {
      float v[N];
      load<N>(from + row * c + channel, v);
      for (int k = 0; k < N; ++k) sum[k] += v[k];
    }
  }
  sum_over_y<N>(sum, shared_memory<float>());
  if (threadIdx.y == 0 && channel < c) {
    for (int k = 0; k < N; ++k) partial[blockIdx.x * c + channel + k] = sum[k];
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    add_bias_kernel(T* y, const float* bias, std::int64_t rows, std::int64_t c) {
  const std::int64_t channel = tile_channel<N>();
  if (channel >= c) return;
  float b[N];
  load<N>(bias + channel, b);
  for (std::int64_t row = tile_row(); row < rows; row += tile_row_step()) {
    float v[N];
    load<N>(y + row * c + channel, v);
    for (int k = 0; k < N; ++k) v[k] += b[k];
    store<N>(v, y + row * c + channel);
  }
}

}  // namespace

void pack_kernel(const float* from, void* to, DType type, std::int64_t positions, std::int64_t in,
                 std::int64_t out, cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    transpose("pack_kernel", from, static_cast<T*>(to), positions, in, out, out, in * out,
              positions * in, in, stream);
  });
}

void unpack_kernel(const void* from, DType type, float* to, std::int64_t positions, std::int64_t in,
                   std::int64_t out, cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    transpose("unpack_kernel", static_cast<const T*>(from), to, positions, out, in, positions * in,
              in, out, in * out, stream);
  });
}

std::int64_t sum_rows_scratch(std::int64_t rows, std::int64_t c) {
  return most_parts(rows, c) * c * static_cast<std::int64_t>(sizeof(float));
}

void sum_rows(const void* from, DType type, std::int64_t rows, std::int64_t c, float* to,
              void* scratch, cudaStream_t stream) {
  with_row_vectors(type, c, aligned({from}), [&]<class T, int N>() {
    const RowTiles tiles = partial_tiles(rows, c / N);
    auto* partial = static_cast<float*>(scratch);
    launch("sum_rows", sum_rows_kernel<T, N>, tiles.grid, tiles.block,
           tiles.threads() * N * sizeof(float), stream, static_cast<const T*>(from), rows, c,
           partial);
    sum_parts(partial, tiles.grid.x, c, to, stream);
  });
}

void add_bias(void* y, DType type, const float* bias, std::int64_t rows, std::int64_t c,
              cudaStream_t stream) {
  with_row_vectors(type, c, aligned({y, bias}), [&]<class T, int N>() {
    const RowTiles tiles = row_tiles(rows, c / N, 4, 1 << 20);
    launch("add_bias", add_bias_kernel<T, N>, tiles.grid, tiles.block, 0, stream,
           static_cast<T*>(y), bias, rows, c);
  });
}

}  // namespace trainer::backend::cuda
