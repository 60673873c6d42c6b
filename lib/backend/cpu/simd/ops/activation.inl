// Activations that oneDNN lacks, and those that our own kernels compute faster.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

template <class T>
struct ActivationKernels {
  // graph::Activation of a kind, y = f(x), and its gradient, dx = dy * f'(x).
  struct Kind {
    void (*forward)(const T* x, T* y, std::int64_t elements);
    void (*backward)(const T* x, const T* dy, T* dx, std::int64_t elements);
  };
  Kind hard_sigmoid, hard_swish, selu, swish, gelu;
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

template <class T>
void hard_swish(const T* x, T* y, std::int64_t elements) {
  over_vectors(elements, [=](std::int64_t i, std::int64_t count) {
    const V v = load_first(x + i, count), part = v * (1.0f / 6) + 0.5f;
    store_first(y + i, v * select(part < 0, V{}, select(part > 1, splat(1), part)), count);
  });
}

template <class T>
void hard_swish_backward(const T* x, const T* dy, T* dx, std::int64_t elements) {
  over_vectors(elements, [=](std::int64_t i, std::int64_t count) {
    const V v = load_first(x + i, count), slope = (v + 1.5f) * (1.0f / 3);
    const V derivative = select(v <= -3, V{}, select(v >= 3, splat(1), slope));
    store_first(dx + i, load_first(dy + i, count) * derivative, count);
  });
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

// 1 / (1 + e^-x) and 1 / (1 + e^x), whose sum is 1.
struct Logistic {
  V value, rest;
};
inline Logistic logistic(V x) {
  const V e = exponential(select(x < 0, x, -x)), inverse = 1.0f / (1.0f + e);
  const V other = e * inverse;
  return {select(x < 0, other, inverse), select(x < 0, inverse, other)};
}

template <class T>
void swish(const T* x, T* y, std::int64_t elements) {
  over_vectors(elements, [=](std::int64_t i, std::int64_t count) {
    const V v = load_first(x + i, count);
    store_first(y + i, v * logistic(v).value, count);
  });
}

template <class T>
void swish_backward(const T* x, const T* dy, T* dx, std::int64_t elements) {
  over_vectors(elements, [=](std::int64_t i, std::int64_t count) {
    const V v = load_first(x + i, count);
    const Logistic s = logistic(v);
    store_first(dx + i, load_first(dy + i, count) * (s.value * (1.0f + v * s.rest)), count);
  });
}

// The distribution function of the standard normal distribution, and its density. Formula 7.1.26 of
// Abramowitz and Stegun, Handbook of Mathematical Functions, which is exact to 7.5e-8.
struct Normal {
  V distribution, density;
};
inline Normal normal(V x) {
  constexpr float kHalfRoot = 0.70710678f, kDensity = 0.39894228f;  // sqrt(1/2), sqrt(1/(2 pi))
  const V size = select(x < 0, -x, x), t = 1.0f / (1.0f + (0.3275911f * kHalfRoot) * size);
  V p = t * 1.061405429f - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const V e = exponential(-0.5f * size * size), tail = 0.5f * p * t * e;
  return {select(x < 0, tail, 1.0f - tail), kDensity * e};
}

template <class T>
void gelu(const T* x, T* y, std::int64_t elements) {
  over_vectors(elements, [=](std::int64_t i, std::int64_t count) {
    const V v = load_first(x + i, count);
    store_first(y + i, v * normal(v).distribution, count);
  });
}

template <class T>
void gelu_backward(const T* x, const T* dy, T* dx, std::int64_t elements) {
  over_vectors(elements, [=](std::int64_t i, std::int64_t count) {
    const V v = load_first(x + i, count);
    const Normal n = normal(v);
    store_first(dx + i, load_first(dy + i, count) * (n.distribution + v * n.density), count);
  });
}

template <class T>
constexpr ActivationKernels<T> kKernels<ActivationKernels<T>> = {
    .hard_sigmoid = {hard_sigmoid<T>, hard_sigmoid_backward<T>},
    .hard_swish = {hard_swish<T>, hard_swish_backward<T>},
    .selu = {selu<T>, selu_backward<T>},
    .swish = {swish<T>, swish_backward<T>},
    .gelu = {gelu<T>, gelu_backward<T>},
};

}  // namespace

template const ActivationKernels<float>& find_kernels();
template const ActivationKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
