// Rows of numbers, of which a block takes one.
#pragma once

#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/reduce.cuh"

namespace trainer::backend::cuda {

inline constexpr std::size_t kRowShared = kWarp * sizeof(double);  // fits over_block() of any type

// Threads for a row of n numbers; one block takes one row.
inline unsigned row_threads(std::int64_t n) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(divide_up(n, 4 * kWarp) * kWarp, kWarp, kThreads));
}

// Calls f(i) for the numbers of a row that are this thread's.
template <class F>
__device__ inline void for_row(std::int64_t n, const F& f) {
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
}
template <class F>
__device__ inline float sum_of_row(std::int64_t n, float* shared, const F& f) {
  float sum = 0;
  for_row(n, [&](std::int64_t i) { sum += f(i); });
  return over_block(sum, 0.0f, shared, Sum());
}
template <class T>
__device__ inline float maximum_of_row(const T* x, std::int64_t n, float* shared) {
  float maximum = -INFINITY;
  for_row(n, [&](std::int64_t i) { maximum = fmaxf(maximum, to_float(x[i])); });
  return over_block(maximum, -INFINITY, shared, Maximum());
}

}  // namespace trainer::backend::cuda
