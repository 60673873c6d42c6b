// Activations that oneDNN lacks.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

template <class T>
struct ActivationKernels {
  // graph::Activation of the kinds that oneDNN lacks; dx = dy * the derivative at x.
  void (*hard_sigmoid)(const T* x, T* y, std::int64_t elements);
  void (*hard_sigmoid_backward)(const T* x, const T* dy, T* dx, std::int64_t elements);
  void (*selu)(const T* x, T* y, std::int64_t elements);
  void (*selu_backward)(const T* x, const T* dy, T* dx, std::int64_t elements);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

template <class T>
void hard_sigmoid(const T* x, T* y, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const float v = get(x + i) + 3.0f;
    put(y + i, (v < 0 ? 0.0f : v > 6 ? 6.0f : v) * (1.0f / 6));
  }
}

template <class T>
void hard_sigmoid_backward(const T* x, const T* dy, T* dx, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const float v = get(x + i);
    put(dx + i, v > -3 && v < 3 ? get(dy + i) * (1.0f / 6) : 0.0f);
  }
}

// They equal graph::kSeluAlpha and graph::kSeluScale, whose header has inline functions.
constexpr float kSeluAlpha = 1.6732632423543772f, kSeluScale = 1.0507009873554805f;

template <class T>
void selu(const T* x, T* y, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const float v = get(x + i);
    put(y + i, kSeluScale * (v > 0 ? v : kSeluAlpha * __builtin_expm1f(v)));
  }
}

template <class T>
void selu_backward(const T* x, const T* dy, T* dx, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const float v = get(x + i);
    put(dx + i, get(dy + i) * kSeluScale * (v >= 0 ? 1.0f : kSeluAlpha * __builtin_expf(v)));
  }
}

template <class T>
constexpr ActivationKernels<T> kKernels<ActivationKernels<T>> = {
    .hard_sigmoid = hard_sigmoid<T>,
    .hard_sigmoid_backward = hard_sigmoid_backward<T>,
    .selu = selu<T>,
    .selu_backward = selu_backward<T>,
};

}  // namespace

template const ActivationKernels<float>& find_kernels();
template const ActivationKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
