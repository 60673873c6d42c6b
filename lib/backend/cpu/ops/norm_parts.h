// Parts of a batch norm, from which single ops and fused ops are made.
#pragma once

#include <cstring>

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {

struct Channels {
  simd::PlaneShape shape;
  std::int64_t count;   // channels of the operand
  std::int64_t padded;  // channels in whole blocks
};

inline Channels find_channels(const Operand& x, const Lowering& l) {
  const std::int64_t blocks = l.machine().count_blocks(x.c());
  const std::int64_t pixels = x.shape.rank() == 4 ? x.h() * x.w() : 1;
  return {{x.n(), blocks, pixels}, x.c(), blocks * l.machine().block};
}

// Copies `count` floats and sets those up to `padded` to zero.
void pad(const float* from, std::int64_t count, std::int64_t padded, float* to);

// Rows of `padded` floats, one float per channel; the floats of padding channels give results of
// zero. The first three rows are simd::NormCoefficients, the last three, which only backward has,
// simd::NormGradientCoefficients.
struct NormRows {
  enum Row { kMean, kA, kB, kInverseStd, kForwardRows, kP = kForwardRows, kQ, kR, kBackwardRows };

  BufferId buffer = -1;
  std::int64_t padded = 0;
  simd::FusedActivation activation = simd::FusedActivation::kNone;
  float alpha = 0;

  float* row(const CallContext& c, Row row, std::int64_t first_channel = 0) const {
    return c.at<float>(buffer) + row * padded + first_channel;
  }
  simd::NormCoefficients at(const CallContext& c, std::int64_t first_channel = 0) const {
    return {row(c, kMean, first_channel), row(c, kA, first_channel), row(c, kB, first_channel),
            activation, alpha};
  }
  simd::NormGradientCoefficients gradient_at(const CallContext& c,
                                             std::int64_t first_channel = 0) const {
    return {row(c, kP, first_channel), row(c, kQ, first_channel), row(c, kR, first_channel)};
  }
};
// Returns the rows in `buffer`, for a norm with this activation.
NormRows norm_rows(BufferId buffer, const Channels& ch, const graph::Activation& activation);
// Allocates rows for readers of the extra `id`, or for this instruction alone if it is kNoExtra.
NormRows make_norm_rows(ExtraId id, NormRows::Row rows, const Channels& ch,
                        const graph::Activation& activation, Lowering& l);

// A batch norm of either form.
struct Norm {
  Channels channels;
  NormRows rows;
  float epsilon;
  bool training;
  BufferId gamma, mean, scale;  // scale: inverse_std in training form, otherwise the variance
  BufferId beta = -1;           // -1: no row needs it

  // Fills the rows of forward from the other operands.
  void fill_rows(const CallContext& c) const;
};

// The moments of x per channel and, behind them, the shift per channel that is subtracted from x.
struct MomentRows {
  BufferId buffer = -1;
  std::int64_t padded = 0;

  static std::int64_t bytes(std::int64_t padded) {
    return padded * static_cast<std::int64_t>(sizeof(simd::Moments) + sizeof(float));
  }
  simd::Moments* moments(const CallContext& c) const { return c.at<simd::Moments>(buffer); }
  float* shift(const CallContext& c) const { return reinterpret_cast<float*>(moments(c) + padded); }
  void clear(const CallContext& c) const {
    std::memset(moments(c), 0, padded * sizeof(simd::Moments));
  }
};

inline std::int64_t gradient_sums_bytes(const Channels& ch) {
  return ch.padded * static_cast<std::int64_t>(sizeof(simd::GradientSums));
}

// Returns the batch norm, of either form, that made the output of a backward form with an
// activation; null if it is not in the graph.
const graph::Node* find_forward(const graph::Graph& graph, const graph::Node& backward);

}  // namespace trainer::backend::cpu
