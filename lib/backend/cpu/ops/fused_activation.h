// The activations that our own kernels apply to a result before they write it.
#pragma once

#include "backend/cpu/simd/kernels.h"
#include "graph/op.h"

namespace trainer::backend::cpu {

inline bool has_gate(const graph::Activation& activation) {
  using Kind = graph::Activation::Kind;
  return activation.linear() || activation.kind == Kind::kRelu || activation.kind == Kind::kRelu6 ||
         activation.kind == Kind::kLeakyRelu;
}

// The simd::Gate by which our kernels apply an activation; kNone if has_gate() is false.
inline simd::Gate gate_of(const graph::Activation& activation) {
  using Kind = graph::Activation::Kind;
  switch (activation.kind) {
    case Kind::kRelu:
      return simd::Gate::kRelu;
    case Kind::kRelu6:
      return simd::Gate::kRelu6;
    case Kind::kLeakyRelu:
      return simd::Gate::kLeakyRelu;
    default:
      return simd::Gate::kNone;
  }
}

}  // namespace trainer::backend::cpu
