#include "backend/cuda/kernels/l2_penalty.h"
#include "backend/cuda/kernels/reduce.cuh"

namespace trainer::backend::cuda {
namespace {

constexpr int kPenaltyBlocks = 1024;

// The penalty of a block's share of w; shares are of equal size.
__global__ void __launch_bounds__(kThreads)
    penalty_sums_kernel(const float* w, std::int64_t count, std::int64_t share, float squares,
                        float absolutes, double* sums) {
  const std::int64_t first = blockIdx.x * share;
  const std::int64_t last = first + share < count ? first + share : count;
  double sum = 0;
  for (std::int64_t i = first + threadIdx.x; i < last; i += blockDim.x) {
    const auto v = static_cast<double>(w[i]);
    sum += v * v * static_cast<double>(squares) + fabs(v) * static_cast<double>(absolutes);
  }
  sum = over_block(sum, 0.0, shared_memory<double>(), Sum());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    penalty_kernel(const double* sums, std::int64_t count, float* y) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
  sum = over_block(sum, 0.0, shared_memory<double>(), Sum());
  if (threadIdx.x == 0) y[0] = static_cast<float>(sum);
}

}  // namespace

void penalty(const graph::L2Penalty& op, const float* w, std::int64_t count, float* y,
             double* scratch, cudaStream_t stream) {
  const std::int64_t least = kThreads * 16;  // numbers of a block
  const std::int64_t share = std::max(least, divide_up(count, kPenaltyBlocks));
  const std::int64_t blocks = divide_up(count, share);
  launch("penalty_sums", penalty_sums_kernel, static_cast<unsigned>(blocks), kThreads,
         kWarp * sizeof(double), stream, w, count, share, op.factor, op.l1, scratch);
  launch("penalty", penalty_kernel, 1, kThreads, kWarp * sizeof(double), stream, scratch, blocks,
         y);
}

}  // namespace trainer::backend::cuda
