// Activation functions and their derivatives; formulas and the treatment of NaN are those of
// lib/backend/cpu.
#pragma once

#include "backend/cuda/kernels/launch.h"
#include "graph/ops/activation.h"

namespace trainer::backend::cuda {

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float hard_sigmoid(float x) {
  const float v = x + 3;
  return (v < 0 ? 0.0f : v > 6 ? 6.0f : v) * (1.0f / 6);
}

// Applies an activation that ops fuse (graph::Activation::fusable). The switch is outside of the
// loops, since all threads of a kernel take the same branch.
template <int N>
__device__ inline void activate(const graph::Activation& activation, float (&v)[N]) {
  using Kind = graph::Activation::Kind;
  const float alpha = activation.alpha;
  const auto each = [&v](const auto& f) {
    for (int k = 0; k < N; ++k) v[k] = f(v[k]);
  };
  switch (activation.kind) {
    case Kind::kLinear:
      return;
    case Kind::kRelu:
      return each([](float x) { return x < 0 ? 0.0f : x; });
    case Kind::kRelu6:
      return each([](float x) { return x < 0 ? 0.0f : x > 6 ? 6.0f : x; });
    case Kind::kLeakyRelu:
      return each([alpha](float x) { return x < 0 ? x * alpha : x; });
    case Kind::kElu:
      return each([alpha](float x) { return x > 0 ? x : alpha * expm1f(x); });
    case Kind::kSigmoid:
      return each([](float x) { return sigmoid(x); });
    case Kind::kTanh:
      return each([](float x) { return tanhf(x); });
    case Kind::kGelu:
      return each([](float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); });
    case Kind::kSwish:
      return each([](float x) { return x * sigmoid(x); });
    case Kind::kHardSigmoid:
    case Kind::kHardSwish:
    case Kind::kSelu:
    case Kind::kSoftmax:
    case Kind::kNegativePart:
      return;  // activate_alone()
  }
}

// All of them.
template <int N>
__device__ inline void activate_alone(const graph::Activation& activation, float (&v)[N]) {
  using Kind = graph::Activation::Kind;
  const auto each = [&v](const auto& f) {
    for (int k = 0; k < N; ++k) v[k] = f(v[k]);
  };
  switch (activation.kind) {
    case Kind::kHardSigmoid:
      return each([](float x) { return hard_sigmoid(x); });
    case Kind::kHardSwish:
      return each([](float x) { return x * hard_sigmoid(x); });
    case Kind::kSelu:
      return each(
          [](float x) { return graph::kSeluScale * (x > 0 ? x : graph::kSeluAlpha * expm1f(x)); });
    case Kind::kNegativePart:
      return each([](float x) { return x > 0 ? 0.0f : x; });
    default:
      return activate(activation, v);
  }
}

// Calls each(f) with the function that multiplies a gradient by the derivative where the output is
// y, f(gradient, y); for activations whose derivative follows from the output
// (graph::Activation::differentiable_from_output), which is all that ops fuse in training.
template <class Each>
__device__ inline void with_derivative_from_output(const graph::Activation& activation,
                                                   const Each& each) {
  using Kind = graph::Activation::Kind;
  const float alpha = activation.alpha;
  switch (activation.kind) {
    case Kind::kLinear:
    case Kind::kGelu:
    case Kind::kSwish:
    case Kind::kHardSigmoid:
    case Kind::kHardSwish:
    case Kind::kSelu:
    case Kind::kSoftmax:
    case Kind::kNegativePart:
      return;
    case Kind::kRelu:
      return each([](float d, float v) { return v > 0 ? d : 0.0f; });
    case Kind::kRelu6:
      return each([](float d, float v) { return v > 0 && v < 6 ? d : 0.0f; });
    case Kind::kLeakyRelu:
      return each([alpha](float d, float v) { return v > 0 ? d : d * alpha; });
    case Kind::kElu:
      return each([alpha](float d, float v) { return v > 0 ? d : d * (v + alpha); });
    case Kind::kSigmoid:
      return each([](float d, float v) { return d * (v * (1.0f - v)); });
    case Kind::kTanh:
      return each([](float d, float v) { return d * (1.0f - v * v); });
  }
}
// g *= the derivative where the output is y.
template <int N>
__device__ inline void activate_backward_from_output(const graph::Activation& activation,
                                                     const float (&y)[N], float (&g)[N]) {
  with_derivative_from_output(activation, [&g, &y](const auto& f) {
    for (int k = 0; k < N; ++k) g[k] = f(g[k], y[k]);
  });
}
// Multiplies R rows of N numbers as above.
template <int R, int N>
__device__ inline void activate_backward_from_output(const graph::Activation& activation,
                                                     const float (&y)[R][N], float (&g)[R][N]) {
  with_derivative_from_output(activation, [&g, &y](const auto& f) {
    unrolled<R>([&](auto i) {
      for (int k = 0; k < N; ++k) g[i][k] = f(g[i][k], y[i][k]);
    });
  });
}

// g *= the derivative where the saved value is s: the output, or the input of the others.
template <int N>
__device__ inline void activate_backward(const graph::Activation& activation, const float (&s)[N],
                                         float (&g)[N]) {
  using Kind = graph::Activation::Kind;
  const auto each = [&g, &s](const auto& f) {
    for (int k = 0; k < N; ++k) g[k] = f(g[k], s[k]);
  };
  switch (activation.kind) {
    case Kind::kGelu:
      return each([](float d, float x) {
        const float density = 0.39894228f * expf(-0.5f * x * x);
        return d * (0.5f * (1.0f + erff(x * 0.70710678f)) + x * density);
      });
    case Kind::kSwish:
      return each([](float d, float x) {
        const float share = sigmoid(x);
        return d * (share + x * share * (1.0f - share));
      });
    case Kind::kHardSigmoid:
      return each([](float d, float x) { return x > -3 && x < 3 ? d * (1.0f / 6) : 0.0f; });
    case Kind::kHardSwish:
      return each([](float d, float x) {
        return x <= -3 ? 0.0f : x >= 3 ? d : d * ((x + 1.5f) * (1.0f / 3));
      });
    case Kind::kSelu:
      return each([](float d, float x) {
        return d * graph::kSeluScale * (x >= 0 ? 1.0f : graph::kSeluAlpha * expf(x));
      });
    case Kind::kNegativePart:
      return each([](float d, float x) { return x < 0 ? d : 0.0f; });
    default:
      return activate_backward_from_output(activation, s, g);
  }
}

// Returns whether the derivative needs a saved value.
inline bool needs_saved(const graph::Activation& activation) {
  return activation.kind != graph::Activation::Kind::kLinear;
}

}  // namespace trainer::backend::cuda
