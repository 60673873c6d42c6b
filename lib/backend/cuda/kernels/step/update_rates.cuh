// The factors of the update of a parameter, besides those that its segment holds.
#pragma once

#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/step/update.h"

namespace trainer::backend::cuda {

struct Rates {
  float learning_rate;
  float step;  // Adam's learning rate, corrected for moments that start at 0; LAMB's, by its trust
  float mean, gradient, square;  // graph::NadamFactors; LAMB's corrections of mean and square
  float ema;
  float unscale;  // 1 / loss scale
  float clip_scale;
};

// See graph::nadam_factors(). The product of 1 - 0.96^i / 2 no longer changes in float from
// kNadamFactors on.
__device__ inline void set_nadam_factors(const UpdateSegment& s, std::uint64_t update,
                                         Rates& rates) {
  constexpr std::uint64_t kNadamFactors = 512;
  const double b1 = static_cast<double>(s.beta_1), t = static_cast<double>(update);
  const double share = 0.5 * pow(0.96, t);
  const double now = b1 * (1 - share), next = b1 * (1 - 0.96 * share);
  double product = pow(b1, t), power = 1;
  for (std::uint64_t i = 0; i < update && i < kNadamFactors; ++i) {
    power *= 0.96;
    product *= 1 - 0.5 * power;
  }
  rates.mean = static_cast<float>(next / (1 - product * next));
  rates.gradient = static_cast<float>((1 - now) / (1 - product));
  rates.square = static_cast<float>(1 / (1 - pow(static_cast<double>(s.beta_2), t)));
}

// 1 / (1 - beta^t): corrects a mean that starts at 0.
__device__ inline float bias_correction(float beta, std::uint64_t t) {
  return static_cast<float>(1 / (1 - pow(static_cast<double>(beta), static_cast<double>(t))));
}

// See graph::average_momentum().
__device__ inline float average_momentum(const UpdateSegment& s, std::uint64_t update) {
  if (update <= 1) return 0;
  if (s.ema_warm_up == 0) return s.ema;
  return fminf(s.ema, static_cast<float>(1 - pow(static_cast<double>(update), -2.0 / 3)));
}

__device__ inline Rates make_rates(const UpdateSegment& s, std::int64_t segment,
                                   const SegmentScales& scales, const StepScalars& scalars,
                                   const StepState& state) {
  Rates rates;
  rates.learning_rate = scalars.learning_rate * s.learning_rate_multiplier;
  rates.step = rates.mean = rates.gradient = rates.square = 0;
  const std::uint64_t update = scalars.update - s.updates_before;
  if (s.rule == kRule<graph::AdamRule>) {
    const double t = static_cast<double>(update);
    rates.step = static_cast<float>(static_cast<double>(rates.learning_rate) *
                                    sqrt(1 - pow(static_cast<double>(s.beta_2), t)) /
                                    (1 - pow(static_cast<double>(s.beta_1), t)));
  }
  if (s.rule == kRule<graph::NadamRule>) set_nadam_factors(s, update, rates);
  if (s.rule == kRule<graph::LambRule>) {
    rates.step = rates.learning_rate * (scales.trust != nullptr ? scales.trust[segment] : 1.0f);
    rates.mean = bias_correction(s.beta_1, update);
    rates.square = bias_correction(s.beta_2, update);
  }
  rates.ema = average_momentum(s, update);
  rates.unscale = 1.0f / state.gradients_scale;
  rates.clip_scale = scales.clip != nullptr ? scales.clip[segment] : 1.0f;
  return rates;
}

}  // namespace trainer::backend::cuda
