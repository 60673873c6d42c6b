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

// The rows of simd::NormRows; padded channels give zero.
struct Affine {
  Buffer mean = -1, a = -1, b = -1;
  simd::Gate gate = simd::Gate::kNone;
  float alpha = 0;

  simd::NormRows at(const RunContext& c) const {
    return {c.at<float>(mean), c.at<float>(a), c.at<float>(b), gate, alpha};
  }
};

// The batch norm, of either form, that made the output of a backward form with an activation; null
// when it is not in the graph.
const graph::Node* forward_of(const graph::Graph& graph, const graph::Node& backward);

}  // namespace trainer::backend::cpu
