// What precedes every rule of an update, and the step of LAMB, whose norm is taken before it is
// made.
#pragma once

#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/step/update_rates.cuh"

namespace trainer::backend::cuda {

// Elements [i, i + N) of the flat buffers, of which `left` are the segment's: parameters w, and
// gradients g without the loss scale and with those of the penalties.
template <int N>
__device__ inline void load_gradient(const UpdateSegment& s, const Rates& rates,
                                     const UpdateBuffers& buffers, std::int64_t i,
                                     std::int64_t left, float (&g)[N], float (&w)[N]) {
  load<N>(buffers.gradients + i, left, g);
  load<N>(buffers.parameters + i, left, w);
  for (int k = 0; k < N; ++k) {
    g[k] *= rates.unscale;
    if (s.l2 != 0) g[k] += 2 * s.l2 * w[k];
    if (s.l1 != 0) g[k] += w[k] > 0 ? s.l1 : w[k] < 0 ? -s.l1 : 0.0f;
  }
}

template <int N>
__device__ inline void clip_and_decay(const UpdateSegment& s, const Rates& rates, float (&g)[N],
                                      float (&w)[N]) {
  for (int k = 0; k < N; ++k) {
    g[k] *= rates.clip_scale;
    if (s.clip.kind == graph::Clip::Kind::kValue) {
      const float limit = s.clip.limit;
      g[k] = g[k] > limit ? limit : g[k] < -limit ? -limit : g[k];
    }
    w[k] -= w[k] * (rates.learning_rate * s.weight_decay);
  }
}

// Moves the means m and v, and returns the step by them times `rate`.
__device__ inline float lamb_step(const UpdateSegment& s, const Rates& rates, float rate, float g,
                                  float& m, float& v) {
  m += (g - m) * (1 - s.beta_1);
  v += (g * g - v) * (1 - s.beta_2);
  return rate * (m * rates.mean) / (sqrtf(v * rates.square) + s.epsilon);
}

}  // namespace trainer::backend::cuda
