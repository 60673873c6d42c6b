// Products with a repeated factor, and their sums.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

template <class T>
struct MultiplyKernels {
  // y = x * factor; x and y are [outer, rows, width], the factor is [outer, width].
  void (*multiply)(const T* x, const T* factor, T* y, std::int64_t outer, std::int64_t rows,
                   std::int64_t width);
  void (*multiply_f32)(const T* x, const float* factor, T* y, std::int64_t rows,
                       std::int64_t width);
  // The sums over rows of a * b, or of a if b is null. The sums have the shape of a factor, and
  // `scratch` has [2, width] floats.
  void (*sum_product)(const T* a, const T* b, T* sum, float* scratch, std::int64_t outer,
                      std::int64_t rows, std::int64_t width);
  void (*sum_product_f32)(const T* a, const T* b, float* sum, float* scratch, std::int64_t rows,
                          std::int64_t width);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

template <class T, class F>
inline void multiply_rows(const T* x, const F* factor, T* y, std::int64_t rows,
                          std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width)
    for (std::int64_t i = 0; i < width; ++i) put(y + i, get(x + i) * get(factor + i));
}

template <class T>
void multiply(const T* x, const T* factor, T* y, std::int64_t outer, std::int64_t rows,
              std::int64_t width) {
  for (std::int64_t o = 0; o < outer; ++o)
    multiply_rows(x + o * rows * width, factor + o * width, y + o * rows * width, rows, width);
}

template <class T>
void multiply_f32(const T* x, const float* factor, T* y, std::int64_t rows, std::int64_t width) {
  multiply_rows(x, factor, y, rows, width);
}

// Sums of few rows are added to sums of many, so that the error does not grow with the rows.
template <class T, class F>
inline void sum_rows(const T* a, const T* b, F* sum, float* scratch, std::int64_t rows,
                     std::int64_t width) {
  constexpr std::int64_t kRows = 64;
  float* few = scratch;
  float* many = scratch + width;
  for (std::int64_t i = 0; i < width; ++i) many[i] = 0;
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t last = least(first + kRows, rows);
    for (std::int64_t i = 0; i < width; ++i) few[i] = 0;
    for (std::int64_t r = first; r < last; ++r, a += width) {
      if (b == nullptr) {
        for (std::int64_t i = 0; i < width; ++i) few[i] += get(a + i);
      } else {
        for (std::int64_t i = 0; i < width; ++i) few[i] += get(a + i) * get(b + i);
        b += width;
      }
    }
    for (std::int64_t i = 0; i < width; ++i) many[i] += few[i];
  }
  for (std::int64_t i = 0; i < width; ++i) put(sum + i, many[i]);
}

template <class T>
void sum_product(const T* a, const T* b, T* sum, float* scratch, std::int64_t outer,
                 std::int64_t rows, std::int64_t width) {
  for (std::int64_t o = 0; o < outer; ++o)
    sum_rows(a + o * rows * width, b == nullptr ? b : b + o * rows * width, sum + o * width,
             scratch, rows, width);
}

template <class T>
void sum_product_f32(const T* a, const T* b, float* sum, float* scratch, std::int64_t rows,
                     std::int64_t width) {
  sum_rows(a, b, sum, scratch, rows, width);
}

template <class T>
constexpr MultiplyKernels<T> kKernels<MultiplyKernels<T>> = {
    .multiply = multiply<T>,
    .multiply_f32 = multiply_f32<T>,
    .sum_product = sum_product<T>,
    .sum_product_f32 = sum_product_f32<T>,
};

}  // namespace

template const MultiplyKernels<float>& find_kernels();
template const MultiplyKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
