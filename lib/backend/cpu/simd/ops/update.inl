// graph::Update over flat buffers: one pass that sums the lanes' gradients, clips, decays, updates
// and averages. The formulas are in graph/ops/update.h.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

// What an update finds out about its gradient and about the parameters that it writes.
struct UpdateFindings {
  double gradient_square = 0;  // the sum of squares of the gradients before clipping
  bool finite = true;          // all parameters are finite
};

// One contiguous run of elements of the flat buffers under one rule.
struct UpdateRun {
  std::int64_t count = 0;
  float* w = nullptr;
  const float* const* gradients = nullptr;  // summed in this order
  int gradient_count = 0;
  float* slot[3] = {};
  float* average = nullptr;  // null: none
  float l1 = 0, l2 = 0, clip_value = 0 /* 0: none */, clip_scale = 1, trust = 1;
  float learning_rate = 0, weight_decay = 0, ema = 0;
  UpdateFindings* findings = nullptr;  // those of the run are added to it; null: not wanted
};

// The factors of graph::LambRule; mean and square correct averages that start at 0.
struct LambFactors {
  float beta_1, beta_2, epsilon, mean, square;
};
// Sums of squares, of the decayed parameters and of the steps.
struct LambSquares {
  double parameter = 0, step = 0;
};

struct UpdateKernels {
  void (*sgd)(const UpdateRun&, float momentum, bool nesterov);
  void (*rms_prop)(const UpdateRun&, float rho, float momentum, float epsilon, bool centered);
  // `rate` is learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
  void (*adam)(const UpdateRun&, float beta_1, float beta_2, float epsilon, bool amsgrad,
               float rate);
  // `mean`, `gradient` and `square` are the graph::nadam_factors() of the update.
  void (*nadam)(const UpdateRun&, float beta_1, float beta_2, float epsilon, float mean,
                float gradient, float square);
  void (*adagrad)(const UpdateRun&, float epsilon);
  void (*lion)(const UpdateRun&, float beta_1, float beta_2);
  // What lamb() would make of the run, with nothing written; its step before the learning rate.
  LambSquares (*lamb_squares)(const UpdateRun&, const LambFactors&);
  void (*lamb)(const UpdateRun&, const LambFactors&);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

// Adds up 16 sums of elements that lie 16 apart, so that the loop is vectorised.
double chunk_square(const float* g, std::int64_t count) {
  constexpr std::int64_t kSums = 16;
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (std::int64_t k = 0; k < kSums; ++k)
      sums[k] += static_cast<double>(g[i + k]) * static_cast<double>(g[i + k]);
  double total = sum_of_squares(g + i, count - i);
  for (const double sum : sums) total += sum;
  return total;
}

// A buffer that no other one overlaps. Rules take their numbers by value: a reference to one could
// point into a buffer, and the loop would not be vectorised.
using Floats = float* __restrict;

// Sums elements [first, first + count) of the gradients and of the penalties' gradients.
inline void sum_gradients(const UpdateRun& r, std::int64_t first, std::int64_t count, float* g) {
  const float* w = r.w + first;
  const float* source = r.gradients[0] + first;
  for (std::int64_t i = 0; i < count; ++i) g[i] = source[i];
  for (int k = 1; k < r.gradient_count; ++k) {
    source = r.gradients[k] + first;
    for (std::int64_t i = 0; i < count; ++i) g[i] += source[i];
  }
  if (r.l2 != 0)
    for (std::int64_t i = 0; i < count; ++i) g[i] += 2 * r.l2 * w[i];
  if (r.l1 != 0)
    for (std::int64_t i = 0; i < count; ++i) g[i] += r.l1 * sign(w[i]);
}

inline void clip(const UpdateRun& r, std::int64_t count, float* g) {
  if (r.clip_scale != 1)
    for (std::int64_t i = 0; i < count; ++i) g[i] *= r.clip_scale;
  if (r.clip_value > 0)
    for (std::int64_t i = 0; i < count; ++i)
      g[i] = g[i] > r.clip_value ? r.clip_value : g[i] < -r.clip_value ? -r.clip_value : g[i];
}

// Returns whether all numbers are finite. The loop is vectorised, as it does not end early.
inline bool are_finite(const float* w, std::int64_t count) {
  std::int32_t bad = 0;
  for (std::int64_t i = 0; i < count; ++i) bad |= w[i] - w[i] == 0 ? 0 : 1;
  return bad == 0;
}

// Calls rule(first, count, gradient, parameters) over chunks that stay in the first-level cache.
template <class Rule>
inline void each(const UpdateRun& r, const Rule& rule) {
  constexpr std::int64_t kChunk = 1024;
  alignas(64) float g[kChunk];
  for (std::int64_t first = 0; first < r.count; first += kChunk) {
    const std::int64_t count = r.count - first < kChunk ? r.count - first : kChunk;
    float* w = r.w + first;
    sum_gradients(r, first, count, g);
    if (r.findings != nullptr) r.findings->gradient_square += chunk_square(g, count);
    clip(r, count, g);
    if (r.weight_decay != 0)
      for (std::int64_t i = 0; i < count; ++i) w[i] -= w[i] * (r.learning_rate * r.weight_decay);
    rule(first, count, g, w);
    if (r.findings != nullptr && !are_finite(w, count)) r.findings->finite = false;
    if (r.average != nullptr) {
      float* average = r.average + first;
      for (std::int64_t i = 0; i < count; ++i) average[i] = average[i] * r.ema + w[i] * (1 - r.ema);
    }
  }
}

void sgd(const UpdateRun& r, float momentum, bool nesterov) {
  each(r, [=](std::int64_t first, std::int64_t count, const float* __restrict g, Floats w) {
    const float rate = r.learning_rate;
    if (momentum == 0) {
      for (std::int64_t i = 0; i < count; ++i) w[i] -= rate * g[i];
      return;
    }
    const Floats v = r.slot[0] + first;
    if (nesterov) {
      for (std::int64_t i = 0; i < count; ++i) {
        v[i] = momentum * v[i] - rate * g[i];
        w[i] += momentum * v[i] - rate * g[i];
      }
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        v[i] = momentum * v[i] - rate * g[i];
        w[i] += v[i];
      }
    }
  });
}

// Slots: velocity, [momentum], [average gradient].
void rms_prop(const UpdateRun& r, float rho, float momentum, float epsilon, bool centered) {
  each(r, [=](std::int64_t first, std::int64_t count, const float* __restrict g, Floats w) {
    const float rate = r.learning_rate;
    const Floats velocity = r.slot[0] + first;
    const Floats moment = momentum > 0 ? r.slot[1] + first : nullptr;
    const Floats mean = centered ? r.slot[momentum > 0 ? 2 : 1] + first : nullptr;
    for (std::int64_t i = 0; i < count; ++i) {
      velocity[i] = rho * velocity[i] + (1 - rho) * g[i] * g[i];
      float denominator = velocity[i];
      if (mean != nullptr) {
        mean[i] = rho * mean[i] + (1 - rho) * g[i];
        denominator -= mean[i] * mean[i];
      }
      denominator += epsilon;  // last, as in Keras: the difference may be smaller than epsilon
      const float change = rate * g[i] / __builtin_sqrtf(denominator);
      if (moment != nullptr) {
        moment[i] = momentum * moment[i] + change;
        w[i] -= moment[i];
      } else {
        w[i] -= change;
      }
    }
  });
}

void adam(const UpdateRun& r, float beta_1, float beta_2, float epsilon, bool amsgrad, float rate) {
  each(r, [=](std::int64_t first, std::int64_t count, const float* __restrict g, Floats w) {
    const Floats m = r.slot[0] + first, v = r.slot[1] + first;
    if (amsgrad) {
      const Floats most = r.slot[2] + first;
      for (std::int64_t i = 0; i < count; ++i) {
        m[i] += (g[i] - m[i]) * (1 - beta_1);
        v[i] += (g[i] * g[i] - v[i]) * (1 - beta_2);
        most[i] = most[i] > v[i] ? most[i] : v[i];
        w[i] -= rate * m[i] / (__builtin_sqrtf(most[i]) + epsilon);
      }
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      m[i] += (g[i] - m[i]) * (1 - beta_1);
      v[i] += (g[i] * g[i] - v[i]) * (1 - beta_2);
      w[i] -= rate * m[i] / (__builtin_sqrtf(v[i]) + epsilon);
    }
  });
}

// Slots: m, v. `mean`, `gradient` and `square` are the graph::nadam_factors() of the update.
void nadam(const UpdateRun& r, float beta_1, float beta_2, float epsilon, float mean,
           float gradient, float square) {
  each(r, [=](std::int64_t first, std::int64_t count, const float* __restrict g, Floats w) {
    const float rate = r.learning_rate;
    const Floats m = r.slot[0] + first, v = r.slot[1] + first;
    for (std::int64_t i = 0; i < count; ++i) {
      m[i] += (g[i] - m[i]) * (1 - beta_1);
      v[i] += (g[i] * g[i] - v[i]) * (1 - beta_2);
      const float step = mean * m[i] + gradient * g[i];
      w[i] -= rate * step / (__builtin_sqrtf(v[i] * square) + epsilon);
    }
  });
}

void adagrad(const UpdateRun& r, float epsilon) {
  each(r, [=](std::int64_t first, std::int64_t count, const float* __restrict g, Floats w) {
    const float rate = r.learning_rate;
    const Floats sum = r.slot[0] + first;
    for (std::int64_t i = 0; i < count; ++i) {
      sum[i] += g[i] * g[i];
      w[i] -= rate * g[i] / __builtin_sqrtf(sum[i] + epsilon);
    }
  });
}

void lion(const UpdateRun& r, float beta_1, float beta_2) {
  each(r, [=](std::int64_t first, std::int64_t count, const float* __restrict g, Floats w) {
    const float rate = r.learning_rate;
    const Floats m = r.slot[0] + first;
    for (std::int64_t i = 0; i < count; ++i) {
      const float direction = m[i] * beta_1 + g[i] * (1 - beta_1);
      w[i] -= direction > 0 ? rate : direction < 0 ? -rate : 0.0f;
      m[i] = m[i] * beta_2 + g[i] * (1 - beta_2);
    }
  });
}

// Slots: m, v.
LambSquares lamb_squares(const UpdateRun& r, const LambFactors& f) {
  constexpr std::int64_t kChunk = 1024;
  alignas(64) float g[kChunk], decayed[kChunk], step[kChunk];
  const float keep = r.learning_rate * r.weight_decay;
  LambSquares squares;
  for (std::int64_t first = 0; first < r.count; first += kChunk) {
    const std::int64_t count = r.count - first < kChunk ? r.count - first : kChunk;
    sum_gradients(r, first, count, g);
    clip(r, count, g);
    const float* w = r.w + first;
    const float* m = r.slot[0] + first;
    const float* v = r.slot[1] + first;
    for (std::int64_t i = 0; i < count; ++i) {
      decayed[i] = w[i] - w[i] * keep;
      const float mean = m[i] + (g[i] - m[i]) * (1 - f.beta_1);
      const float square = v[i] + (g[i] * g[i] - v[i]) * (1 - f.beta_2);
      step[i] = mean * f.mean / (__builtin_sqrtf(square * f.square) + f.epsilon);
    }
    squares.parameter += chunk_square(decayed, count);
    squares.step += chunk_square(step, count);
  }
  return squares;
}

void lamb(const UpdateRun& r, const LambFactors& f) {
  const LambFactors factors = f;
  each(r, [=](std::int64_t first, std::int64_t count, const float* __restrict g, Floats w) {
    const float rate = r.learning_rate * r.trust;
    const Floats m = r.slot[0] + first, v = r.slot[1] + first;
    for (std::int64_t i = 0; i < count; ++i) {
      m[i] += (g[i] - m[i]) * (1 - factors.beta_1);
      v[i] += (g[i] * g[i] - v[i]) * (1 - factors.beta_2);
      w[i] -=
          rate * (m[i] * factors.mean) / (__builtin_sqrtf(v[i] * factors.square) + factors.epsilon);
    }
  });
}

template <>
constexpr UpdateKernels kKernels<UpdateKernels> = {
    .sgd = sgd,
    .rms_prop = rms_prop,
    .adam = adam,
    .nadam = nadam,
    .adagrad = adagrad,
    .lion = lion,
    .lamb_squares = lamb_squares,
    .lamb = lamb,
};

}  // namespace

template const UpdateKernels& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL

#else
#include <cmath>

#include "graph/ops/update.h"

namespace trainer::backend::cpu::simd {

// One overload per rule calls the kernel of the rule. `update` is the number of the update of the
// parameter, from 1.
inline void apply(const graph::SgdRule& rule, const UpdateKernels& kernels, const UpdateRun& run,
                  std::uint64_t) {
  kernels.sgd(run, rule.momentum, rule.nesterov);
}

inline void apply(const graph::RmsPropRule& rule, const UpdateKernels& kernels,
                  const UpdateRun& run, std::uint64_t) {
  kernels.rms_prop(run, rule.rho, rule.momentum, rule.epsilon, rule.centered);
}

inline void apply(const graph::AdamRule& rule, const UpdateKernels& kernels, const UpdateRun& run,
                  std::uint64_t update) {
  const double t = static_cast<double>(update);
  const double rate = static_cast<double>(run.learning_rate) *
                      std::sqrt(1 - std::pow(static_cast<double>(rule.beta_2), t)) /
                      (1 - std::pow(static_cast<double>(rule.beta_1), t));
  kernels.adam(run, rule.beta_1, rule.beta_2, rule.epsilon, rule.amsgrad, static_cast<float>(rate));
}

inline void apply(const graph::NadamRule& rule, const UpdateKernels& kernels, const UpdateRun& run,
                  std::uint64_t update) {
  const graph::NadamFactors factors = graph::nadam_factors(rule, update);
  kernels.nadam(run, rule.beta_1, rule.beta_2, rule.epsilon, static_cast<float>(factors.mean),
                static_cast<float>(factors.gradient), static_cast<float>(factors.square));
}

inline void apply(const graph::AdagradRule& rule, const UpdateKernels& kernels,
                  const UpdateRun& run, std::uint64_t) {
  kernels.adagrad(run, rule.epsilon);
}

inline void apply(const graph::LionRule& rule, const UpdateKernels& kernels, const UpdateRun& run,
                  std::uint64_t) {
  kernels.lion(run, rule.beta_1, rule.beta_2);
}

// Returns 1 / (1 - beta^t), which corrects a mean that starts at 0.
inline float bias_correction(float beta, std::uint64_t t) {
  return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(t))));
}

inline LambFactors lamb_factors(const graph::LambRule& rule, std::uint64_t update) {
  return {rule.beta_1, rule.beta_2, rule.epsilon, bias_correction(rule.beta_1, update),
          bias_correction(rule.beta_2, update)};
}

inline void apply(const graph::LambRule& rule, const UpdateKernels& kernels, const UpdateRun& run,
                  std::uint64_t update) {
  kernels.lamb(run, lamb_factors(rule, update));
}

}  // namespace trainer::backend::cpu::simd
#endif
