// The labels that the kernels of losses and class ranks read.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/rows.cuh"
#include "base/types.h"

namespace trainer::backend::cuda {

// The targets of a row, from a class index or from numbers, before they are smoothed.
struct RowTargets {
  const float* numbers;  // null: the index counts
  std::int32_t index;

  __device__ float at(std::int64_t n, std::int64_t i) const {
    if (numbers != nullptr) return numbers[i];
    if (n == 1) return static_cast<float>(index);
    return index == i ? 1.0f : 0.0f;
  }
};

struct Targets {
  const std::int32_t* index;
  const float* numbers;
  std::int64_t stride;  // numbers per row: n, and the sample's weight where it has one

  __device__ RowTargets row(std::int64_t i) const {
    if (numbers != nullptr) return {numbers + i * stride, 0};
    return {nullptr, index[i]};
  }
};

// With `sample_weight`, the weight of a row follows its numbers.
inline Targets make_targets(const void* labels, DType type, std::int64_t n, bool sample_weight) {
  if (type == DType::kInt32) return {static_cast<const std::int32_t*>(labels), nullptr, 1};
  return {nullptr, static_cast<const float*>(labels), sample_weight ? n + 1 : n};
}

// Returns the place of the largest number of a row, the first of equals.
__device__ inline std::int64_t largest_of_row(const float* row, std::int64_t n, double* shared) {
  float maximum = -INFINITY;
  for_row(n, [&](std::int64_t i) { maximum = fmaxf(maximum, row[i]); });
  maximum = over_block(maximum, -INFINITY, reinterpret_cast<float*>(shared), Maximum());
  std::int64_t first = n - 1;
  for_row(n, [&](std::int64_t i) {
    if (row[i] == maximum && i < first) first = i;
  });
  const auto least = [](std::int64_t a, std::int64_t b) { return a < b ? a : b; };
  return over_block(first, n - 1, reinterpret_cast<std::int64_t*>(shared), least);
}

}  // namespace trainer::backend::cuda
