#include "backend/cuda/kernels/reduce.cuh"

namespace trainer::backend::cuda {
namespace {

__global__ void __launch_bounds__(1024)
    sum_parts_kernel(const float* from, std::int64_t parts, std::int64_t columns, float* to) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float sum[1] = {};
  if (column < columns) {
    for_parts(
        parts, [&](std::int64_t part) { return from[part * columns + column]; },
        [&](float value) { sum[0] += value; });
  }
  sum_over_y<1>(sum, shared_memory<float>());
  if (threadIdx.y == 0 && column < columns) to[column] = sum[0];
}

}  // namespace

void sum_parts(const float* from, std::int64_t parts, std::int64_t columns, float* to,
               cudaStream_t stream) {
  const dim3 block(kWarp, static_cast<unsigned>(std::clamp<std::int64_t>(parts, 1, 32)));
  launch("sum_parts", sum_parts_kernel, dim3(static_cast<unsigned>(divide_up(columns, kWarp))),
         block, std::size_t{block.x} * block.y * sizeof(float), stream, from, parts, columns, to);
}

}  // namespace trainer::backend::cuda
