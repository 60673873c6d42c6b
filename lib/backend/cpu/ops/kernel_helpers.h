// Helpers shared by the files that lower single ops onto our own kernels.
#pragma once

#include <algorithm>

#include "backend/cpu/lowering.h"
#include "backend/cpu/ops/fused_activation.h"
#include "base/numbers/half.h"

namespace trainer::backend::cpu {

// Calls f with the C++ type of activations of this element type.
template <class F>
void with_type(DType type, F&& f) {
  if (type == DType::kBFloat16) {
    f.template operator()<simd::BFloat16>();
  } else {
    f.template operator()<float>();
  }
}

// Adds an instruction that calls run(context, kernels) with the kernels K for activations of this
// element type. `detail` follows the instruction set in printed programs.
template <template <class> class K, class Run>
void emit_kernels(Lowering& l, DType type, const Run& run, const std::string& detail = "") {
  with_type(type, [&]<class T>() {
    const auto& kernels = simd::find_kernels<K<T>>(l.kernels());
    l.emit(l.kernels().name + detail, [run, &kernels](const CallContext& c) { run(c, kernels); });
  });
}

inline float as_float(float x) { return x; }
inline float as_float(simd::BFloat16 x) { return bfloat16_to_float(x.bits); }

inline void assign(float& to, float x) { to = x; }
inline void assign(simd::BFloat16& to, float x) { to.bits = float_to_bfloat16(x); }

// Returns input i, a parameter, as [rows, channels padded with zeros], packed once per update.
inline BufferId padded_rows(Lowering& l, std::size_t input, std::int64_t channels,
                            std::int64_t padded) {
  const std::int64_t rows = l.input_shape(input).elements() / channels;
  return l.packed_weights(input, concat("rows", padded), rows * padded * 4,
                          [=](const float* from, std::byte* to) {
                            return [=] {
                              float* row = reinterpret_cast<float*>(to);
                              for (std::int64_t r = 0; r < rows; ++r, row += padded) {
                                std::copy(from + r * channels, from + (r + 1) * channels, row);
                                std::fill(row + channels, row + padded, 0.0f);
                              }
                            };
                          });
}

// Instructions that apply an activation or its derivative to whole operands (activation.cpp).
// `saved` is the output, or the input for activations that are not differentiable from their
// output.
void activate(Lowering& l, const graph::Activation& activation, const Operand& x, const Operand& y);
void activate_backward(Lowering& l, const graph::Activation& activation, const Operand& saved,
                       const Operand& dy, const Operand& dx);
// Applies an activation to y in place, unless our own kernels have applied it.
void activate_unfused(Lowering& l, const graph::Activation& activation, const Operand& y);
// Returns the gradient dy before an activation, in memory of its own.
Operand before_activation(Lowering& l, const graph::Activation& activation, const Operand& saved,
                          const Operand& dy);

}  // namespace trainer::backend::cpu
