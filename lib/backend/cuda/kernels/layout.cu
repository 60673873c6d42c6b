#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/layout.h"
#include "backend/cuda/kernels/reduce.cuh"

namespace trainer::backend::cuda {
namespace {

constexpr int kTile = 32, kTileRows = 8;

// A matrix [rows][columns] for each position of a kernel: of HWIO [in][out], of KRSC [out][in].
struct Matrices {
  const void* from;
  void* to;
  unsigned positions, in, out;
  unsigned first_tile;  // of the grid
};
// An argument of a kernel, which may have 4 KiB.
constexpr int kMaxKernels = 120;
struct MatricesList {
  Matrices kernels[kMaxKernels];
  int count;
};

// Returns the kernel that the running block has a tile of.
__device__ inline const Matrices& find_kernel(const MatricesList& list) {
  int first = 0, last = list.count;
  while (last - first > 1) {
    const int middle = (first + last) / 2;
    (list.kernels[middle].first_tile <= blockIdx.x ? first : last) = middle;
  }
  return list.kernels[first];
}

// Transposes the matrices of all kernels, HWIO to KRSC if kPack and back otherwise, a tile per
// block. Through shared memory, so that reads and writes are of whole lines.
template <class From, class To, bool kPack>
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_kernels_kernel(const MatricesList list) {
  float* tile = shared_memory<float>();  // a column more, so that columns lie in different banks
  const Matrices& kernel = find_kernel(list);
  const unsigned rows = kPack ? kernel.in : kernel.out, columns = kPack ? kernel.out : kernel.in;
  const std::int64_t krsc_pitch = static_cast<std::int64_t>(kernel.positions) * kernel.in;
  const std::int64_t hwio_step = static_cast<std::int64_t>(kernel.in) * kernel.out;
  const unsigned across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  const unsigned index = blockIdx.x - kernel.first_tile, position = index / across / down;
  const unsigned row = index / across % down * kTile, column = index % across * kTile;
  const From* from = static_cast<const From*>(kernel.from) +
                     position * (kPack ? hwio_step : static_cast<std::int64_t>(kernel.in));
  To* to = static_cast<To*>(kernel.to) +
           position * (kPack ? static_cast<std::int64_t>(kernel.in) : hwio_step);
  const std::int64_t from_pitch = kPack ? kernel.out : krsc_pitch;
  const std::int64_t to_pitch = kPack ? krsc_pitch : kernel.out;
  const unsigned x = threadIdx.x;
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

template <class From, class To, bool kPack>
void transpose(const char* name, std::span<const KernelLayouts> kernels, cudaStream_t stream) {
  for (std::size_t i = 0; i < kernels.size();) {
    MatricesList list = {};
    unsigned tiles = 0;
    for (; i < kernels.size() && list.count < kMaxKernels; ++i, ++list.count) {
      const KernelLayouts& k = kernels[i];
      list.kernels[list.count] = {kPack ? k.hwio : k.krsc,
                                  kPack ? k.krsc : k.hwio,
                                  static_cast<unsigned>(k.positions),
                                  static_cast<unsigned>(k.in),
                                  static_cast<unsigned>(k.out),
                                  tiles};
      tiles +=
          static_cast<unsigned>(k.positions * divide_up(k.in, kTile) * divide_up(k.out, kTile));
    }
    launch(name, transpose_kernels_kernel<From, To, kPack>, tiles, dim3(kTile, kTileRows),
           kTile * (kTile + 1) * sizeof(float), stream, list);
  }
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

void pack_kernels(std::span<const KernelLayouts> kernels, DType type, cudaStream_t stream) {
  with_type(type, [&]<class T>() { transpose<float, T, true>("pack_kernels", kernels, stream); });
}

void unpack_kernels(std::span<const KernelLayouts> kernels, DType type, cudaStream_t stream) {
  with_type(type,
            [&]<class T>() { transpose<T, float, false>("unpack_kernels", kernels, stream); });
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
