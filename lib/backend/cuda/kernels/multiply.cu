#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/multiply.h"
#include "backend/cuda/kernels/reduce.cuh"

namespace trainer::backend::cuda {
namespace {

struct Product {
  __device__ float operator()(float a, float b) const { return a * b; }
};

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    multiply_kernel(const T* a, const T* b, T* y, std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float v[N], factor[N];
  load<N>(a + i, count - i, v);
  load<N>(b + i, count - i, factor);
  for (int k = 0; k < N; ++k) v[k] *= factor[k];
  store<N>(v, count - i, y + i);
}

// Blocks walk the outer extent along z and the parts of a row along y.
template <class Combine, class T, class F, int N>
__global__ void __launch_bounds__(kThreads)
    repeat_kernel(const T* x, const F* repeated, T* y, RepeatedShape shape) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x * N;
  for (std::int64_t o = blockIdx.z; o < shape.outer; o += gridDim.z) {
    for (std::int64_t i = tile_channel<N>(); i < shape.width; i += step) {
      float factors[N];
      load<N>(repeated + o * shape.width + i, factors);
      for (std::int64_t row = tile_row(); row < shape.rows; row += tile_row_step()) {
        const std::int64_t at = (o * shape.rows + row) * shape.width + i;
        float v[N];
        load<N>(x + at, v);
        for (int k = 0; k < N; ++k) v[k] = Combine()(v[k], factors[k]);
        store<N>(v, y + at);
      }
    }
  }
}

// sums[outer][gridDim.x][width]. All threads of a block take the same turns.
template <class T, class To, int N>
__global__ void __launch_bounds__(kThreads, 2)
    sum_products_kernel(const T* a, const T* b, To* sums, RepeatedShape shape) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x * N;
  for (std::int64_t o = blockIdx.z; o < shape.outer; o += gridDim.z) {
    for (std::int64_t i = tile_channel<N>(); i - threadIdx.x * N < shape.width; i += step) {
      float sum[N] = {};
      for (std::int64_t row = tile_row(); i < shape.width && row < shape.rows;
           row += tile_row_step()) {
        const std::int64_t at = (o * shape.rows + row) * shape.width + i;
        float v[N], factor[N];
        load<N>(a + at, v);
        if (b != nullptr) {
          load<N>(b + at, factor);
          for (int k = 0; k < N; ++k) v[k] *= factor[k];
        }
        for (int k = 0; k < N; ++k) sum[k] += v[k];
      }
      sum_over_y<N>(sum, shared_memory<float>());
      if (threadIdx.y == 0 && i < shape.width) {
        store<N>(sum, sums + (o * gridDim.x + blockIdx.x) * shape.width + i);
      }
    }
  }
}

// `tiles` within what a grid may have along y and z.
RowTiles repeated_tiles(RowTiles tiles, std::int64_t outer) {
  tiles.grid.y = grid_y(tiles.grid.y);
  tiles.grid.z = grid_y(outer);
  return tiles;
}

template <class Combine, class T, class F, int N>
void repeat(const char* name, const T* x, const F* repeated, T* y, const RepeatedShape& shape,
            cudaStream_t stream) {
  const RowTiles tiles =
      repeated_tiles(row_tiles(shape.rows, shape.width / N, 8, 1 << 20), shape.outer);
  launch(name, repeat_kernel<Combine, T, F, N>, tiles.grid, tiles.block, 0, stream, x, repeated, y,
         shape);
}

template <class T, class To, int N>
void launch_sums(const RowTiles& tiles, const void* a, const void* b, To* sums,
                 const RepeatedShape& shape, cudaStream_t stream) {
  launch("sum_products", sum_products_kernel<T, To, N>, tiles.grid, tiles.block,
         tiles.threads() * N * sizeof(float), stream, static_cast<const T*>(a),
         static_cast<const T*>(b), sums, shape);
}

}  // namespace

void multiply(const void* a, const void* b, void* y, DType type, std::int64_t count,
              cudaStream_t stream) {
  with_vectors(type, aligned({a, b, y}), [&]<class T, int N>() {
    launch("multiply", multiply_kernel<T, N>, grid_over(count, N), kThreads, 0, stream,
           static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y), count);
  });
}

void multiply_repeated(const void* x, const void* factor, DType factor_type, void* y, DType type,
                       const RepeatedShape& shape, cudaStream_t stream) {
  with_row_vectors(type, shape.width, aligned({x, factor, y}), [&]<class T, int N>() {
    const auto run = [&]<class F>(const F* from) {
      repeat<Product, T, F, N>("multiply_repeated", static_cast<const T*>(x), from,
                               static_cast<T*>(y), shape, stream);
    };
    if (factor_type == DType::kFloat32) return run(static_cast<const float*>(factor));
    run(static_cast<const T*>(factor));
  });
}

void add_repeated(const void* x, const float* bias, void* y, DType type, const RepeatedShape& shape,
                  cudaStream_t stream) {
  with_row_vectors(type, shape.width, aligned({x, bias, y}), [&]<class T, int N>() {
    repeat<Sum, T, float, N>("add_repeated", static_cast<const T*>(x), bias, static_cast<T*>(y),
                             shape, stream);
  });
}

void sum_products(const void* a, const void* b, void* sums, DType type, const RepeatedShape& shape,
                  cudaStream_t stream) {
  with_row_vectors(type, shape.width, aligned({a, b, sums}), [&]<class T, int N>() {
    const RowTiles tiles =
        repeated_tiles(row_tiles(shape.rows, shape.width / N, 1, 1), shape.outer);
    launch_sums<T, T, N>(tiles, a, b, static_cast<T*>(sums), shape, stream);
  });
}

void sum_products_float32(const void* a, const void* b, float* sums, DType type,
                          const RepeatedShape& shape, cudaStream_t stream) {
  with_row_vectors(type, shape.width, aligned({a, b, sums}), [&]<class T, int N>() {
    const RowTiles tiles =
        repeated_tiles(row_tiles(shape.rows, shape.width / N, 1, 1), shape.outer);
    launch_sums<T, float, N>(tiles, a, b, sums, shape, stream);
  });
}

std::int64_t sum_products_scratch(std::int64_t rows, std::int64_t width) {
  return most_parts(rows, width) * width * static_cast<std::int64_t>(sizeof(float));
}

void sum_products_of_all(const void* a, const void* b, float* sums, DType type, std::int64_t rows,
                         std::int64_t width, void* scratch, cudaStream_t stream) {
  auto* partial = static_cast<float*>(scratch);
  with_row_vectors(type, width, aligned({a, b, scratch}), [&]<class T, int N>() {
    const RowTiles tiles = repeated_tiles(partial_tiles(rows, width / N), 1);
    launch_sums<T, float, N>(tiles, a, b, partial, {1, rows, width}, stream);
    sum_parts(partial, tiles.grid.x, width, sums, stream);
  });
}

}  // namespace trainer::backend::cuda
