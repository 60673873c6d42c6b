// What the lowering of batch norms shares with that of the convolutions between them.
#pragma once

#include "backend/cpu/ops/kernel_helpers.h"

namespace trainer::backend::cpu {

struct Channels {
  simd::PlaneShape shape;
  std::int64_t count;   // true channels
  std::int64_t padded;  // to whole blocks
};

inline Channels channels_of(const Operand& x, const Lowering& l) {
  const std::int64_t block = l.machine().block;
  const std::int64_t blocks = (x.c() + block - 1) / block;
  const std::int64_t pixels = x.shape.rank() == 4 ? x.h() * x.w() : 1;
  return {{x.n(), blocks, pixels}, x.c(), blocks * block};
}

// Where simd::NormCoefficients lie, each of `padded` floats; those of padded channels give zero.
struct NormBuffers {
  Buffer mean = -1, a = -1, b = -1;
  simd::Gate gate = simd::Gate::kNone;
  float alpha = 0;

  // Those of the channels from `first` on.
  simd::NormCoefficients at(const RunContext& c, std::int64_t first = 0) const {
    return {c.at<float>(mean) + first, c.at<float>(a) + first, c.at<float>(b) + first, gate, alpha};
  }
};

// Scratch for the coefficients of the next step.
NormBuffers norm_buffers(Lowering& l, const Channels& ch, const graph::Activation& activation);
// The next step reads coefficients of an earlier one.
void reuse(Lowering& l, const NormBuffers& norm);
// Fills them; beta may be null. gamma, beta, mean and inverse_std are [count].
void fill_coefficients(const RunContext& c, const Channels& ch, const float* gamma,
                       const float* beta, const float* mean, const float* inverse_std,
                       const NormBuffers& norm);
// Copies `count` floats and sets those up to `padded` to zero.
void pad(const float* from, std::int64_t count, std::int64_t padded, float* to);

// The batch norm, of either form, that made the output of a backward form with an activation; null
// when it is not in the graph.
const graph::Node* forward_of(const graph::Graph& graph, const graph::Node& backward);

}  // namespace trainer::backend::cpu
