// The terms of losses and their derivatives, which the kernels of all backends compute alike.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define TRAINER_HOST_DEVICE __host__ __device__
#else
#define TRAINER_HOST_DEVICE
#endif

namespace trainer::backend {

// With l = log p, the term (1 - p)^gamma l and its derivative by l, which is finite where p is 1.
struct FocalTerm {
  float value, slope;
};
TRAINER_HOST_DEVICE inline FocalTerm focal_term(float l, float gamma) {
  const float missed = -std::expm1(l);
  const float factor = std::pow(missed, gamma);
  if (missed <= 0) return {factor * l, -factor};
  return {factor * l, gamma * std::exp(l) * (factor / missed) * l - factor};
}

// How the targets of binary cross-entropy follow from its labels, see graph::Loss.
struct BinaryTargets {
  float smoothing, centre, threshold;

  TRAINER_HOST_DEVICE float operator()(float label) const {
    const float target = label * (1 - smoothing) + centre * smoothing;
    if (threshold < 0) return target;
    return target > threshold ? 1.0f : 0.0f;
  }
};

// The loss of one target, and its derivative by the logit.
struct BinaryTerm {
  float loss, gradient;
};

// w q^gamma b with the cross-entropy b and q = t (1 - p) + (1 - t) p, the share that p misses t by;
// d/dx = w (gamma q^(gamma - 1) b p (1 - p) (1 - 2 t) + q^gamma (p - t)). `focal` has gamma and
// alpha.
template <class Focal>
TRAINER_HOST_DEVICE inline BinaryTerm binary_focal(float x, float target, float cross_entropy,
                                                   const Focal& focal) {
  const float p = 1 / (1 + std::exp(-x)), rest = 1 / (1 + std::exp(x));
  const float missed = target * rest + (1 - target) * p;
  const float factor = std::pow(missed, focal.gamma);
  const float weight =
      focal.alpha < 0 ? 1 : target * focal.alpha + (1 - target) * (1 - focal.alpha);
  const float turn = missed > 0 ? focal.gamma * (factor / missed) * cross_entropy : 0;
  return {weight * factor * cross_entropy,
          weight * (turn * p * rest * (1 - 2 * target) + factor * (p - target))};
}

// Cross-entropy whose two parts have weights, with log(1 - p) = -softplus(x), log p =
// -softplus(-x): negative (1 - t) softplus(x) + positive t softplus(-x); d/dx = negative (1 - t) p
// - positive t (1 - p).
TRAINER_HOST_DEVICE inline BinaryTerm weighted_term(float x, float target, float negative,
                                                    float positive) {
  const float rest = std::log1p(std::exp(-std::abs(x)));
  const float softplus = (x < 0 ? 0 : x) + rest, mirrored = (x < 0 ? -x : 0) + rest;
  const float p = 1 / (1 + std::exp(-x)), q = 1 / (1 + std::exp(x));
  return {negative * (1 - target) * softplus + positive * target * mirrored,
          negative * (1 - target) * p - positive * target * q};
}

// weighted_term() with the focal factor of binary_focal().
template <class Focal>
TRAINER_HOST_DEVICE inline BinaryTerm weighted_focal(float x, float target, float negative,
                                                     float positive, const Focal& focal) {
  const float cross_entropy = weighted_term(x, target, 1, 1).loss;
  const BinaryTerm term = binary_focal(x, target, cross_entropy, focal);
  const float weight = negative * (1 - target) + positive * target;
  return {weight * term.loss, weight * term.gradient};
}

}  // namespace trainer::backend

#undef TRAINER_HOST_DEVICE
