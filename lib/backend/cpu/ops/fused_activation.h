// The activations that our own kernels apply to a result before they write it.
#pragma once

#include "backend/cpu/simd/kernels.h"
#include "graph/op.h"

namespace trainer::backend::cpu {

// Returns the simd::FusedActivation of an activation; kNone if it is not fusable.
inline simd::FusedActivation fused_activation(const graph::Activation& activation) {
  using Kind = graph::Activation::Kind;
  switch (activation.kind) {
    case Kind::kRelu:
      return simd::FusedActivation::kRelu;
    case Kind::kRelu6:
      return simd::FusedActivation::kRelu6;
    case Kind::kLeakyRelu:
      return simd::FusedActivation::kLeakyRelu;
    default:
      return simd::FusedActivation::kNone;
  }
}

// Returns whether our own kernels can apply an activation.
inline bool is_fusable(const graph::Activation& activation) {
  return activation.linear() || fused_activation(activation) != simd::FusedActivation::kNone;
}

}  // namespace trainer::backend::cpu
