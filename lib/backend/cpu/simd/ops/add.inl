// Sums of images, and of an image and a bias.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

template <class T>
struct AddKernels {
  // y = the sum of `count` inputs, in their order; y may be the first.
  void (*add)(T* y, const T* const* x, int count, std::int64_t elements);
  // y = x + bias; x and y are [rows, width], the bias is [width].
  void (*add_bias)(const T* x, const float* bias, T* y, std::int64_t rows, std::int64_t width);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

template <class T>
void add(T* y, const T* const* x, int count, std::int64_t elements) {
  over_vectors(elements, [=](std::int64_t i, std::int64_t part) {
    V sum = load_first(x[0] + i, part);
    for (int k = 1; k < count; ++k) sum += load_first(x[k] + i, part);
    store_first(y + i, sum, part);
  });
}

template <class T>
void add_bias(const T* x, const float* bias, T* y, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width) {
    over_vectors(width, [=](std::int64_t i, std::int64_t part) {
      store_first(y + i, load_first(x + i, part) + load_first(bias + i, part), part);
    });
  }
}

template <class T>
constexpr AddKernels<T> kKernels<AddKernels<T>> = {
    .add = add<T>,
    .add_bias = add_bias<T>,
};

}  // namespace

template const AddKernels<float>& find_kernels();
template const AddKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
