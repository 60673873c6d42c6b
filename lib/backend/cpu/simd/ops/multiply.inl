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
  // The sums over rows of a * b, or of a if b is null. The sums have the shape of a factor.
  void (*sum_product)(const T* a, const T* b, T* sum, std::int64_t outer, std::int64_t rows,
                      std::int64_t width);
  void (*sum_product_f32)(const T* a, const T* b, float* sum, std::int64_t rows,
                          std::int64_t width);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

template <class T, class F>
inline void multiply_rows(const T* x, const F* factor, T* y, std::int64_t rows,
                          std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width) {
    over_vectors(width, [=](std::int64_t i, std::int64_t part) {
      store_first(y + i, load_first(x + i, part) * load_first(factor + i, part), part);
    });
  }
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

// Sums `vectors` vectors of each row, of which the last has `count` numbers. Sums of few rows are
// added to sums of many, so that the error does not grow with the rows.
template <int vectors, class T, class F>
inline void sum_columns(const T* a, const T* b, F* sum, std::int64_t rows, std::int64_t width,
                        std::int64_t count) {
  constexpr std::int64_t kRows = 64;
  V many[vectors] = {};
  for (std::int64_t first = 0; first < rows; first += kRows) {
    V few[vectors] = {};
    for (std::int64_t at = first * width; at < least(first + kRows, rows) * width; at += width) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const V value = load_first(a + at + v * B, count);
        few[v] += b == nullptr ? value : value * load_first(b + at + v * B, count);
      }
    }
    for (int v = 0; v < vectors; ++v) many[v] += few[v];
  }
  for (int v = 0; v < vectors; ++v) store_first(sum + v * B, many[v], count);
}

template <class T, class F>
inline void sum_rows(const T* a, const T* b, F* sum, std::int64_t rows, std::int64_t width) {
  constexpr int kVectors = 4;
  const auto second = [b](std::int64_t i) { return b == nullptr ? b : b + i; };
  std::int64_t i = 0;
  for (; i + kVectors * B <= width; i += kVectors * B) {
    sum_columns<kVectors>(a + i, second(i), sum + i, rows, width, B);
  }
  for (; i < width; i += B) {
    sum_columns<1>(a + i, second(i), sum + i, rows, width, least(B, width - i));
  }
}

template <class T>
void sum_product(const T* a, const T* b, T* sum, std::int64_t outer, std::int64_t rows,
                 std::int64_t width) {
  for (std::int64_t o = 0; o < outer; ++o, a += rows * width) {
    sum_rows(a, b, sum + o * width, rows, width);
    if (b != nullptr) b += rows * width;
  }
}

template <class T>
void sum_product_f32(const T* a, const T* b, float* sum, std::int64_t rows, std::int64_t width) {
  sum_rows(a, b, sum, rows, width);
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
