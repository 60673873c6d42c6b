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
std::int64_t norm_rows_bytes(const Channels& ch, NormRows::Row rows);
// Returns the rows in `buffer`, for a norm with this activation.
NormRows norm_rows(BufferId buffer, const Channels& ch, const graph::Activation& activation);
// Fills the rows kMean, kA and kB from kInverseStd, which the caller has filled. beta may be null.
// gamma, beta and mean are [count].
void fill_coefficients(const CallContext& c, const Channels& ch, const float* gamma,
                       const float* beta, const float* mean, const NormRows& rows);

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

template <class T>
void take_moments(const CallContext& c, const simd::Typed<T>& kernels, const T* x,
                  const Channels& ch, std::int64_t block, const MomentRows& rows) {
  // The shift is the first pixel of each channel, so that large means cost no precision.
  for (std::int64_t k = 0; k < ch.shape.blocks; ++k) {
    kernels.to_f32(x + k * ch.shape.pixels * block, rows.shift(c) + k * block, block);
  }
  rows.clear(c);
  over_channels(c, ch.shape, block, [&](const PlanePart& part) {
    kernels.moments(part.shape, x + part.element, rows.shift(c) + part.channel,
                    rows.moments(c) + part.channel);
  });
}

// The second half of a batch norm's statistics in training form: from the moments to the rows.
struct BatchStatistics {
  Channels channels;
  MomentRows moments;
  BufferId gamma, beta, mean, inverse_std;
  float epsilon;
  NormRows rows;

  // Combines the lanes' moments into the mean and the inverse deviation and fills the rows.
  void finish(const CallContext& c) const;
};
BatchStatistics batch_statistics(const graph::Node& norm, const Channels& ch,
                                 const MomentRows& moments, const NormRows& rows, Lowering& l);

// The statistics of a BatchNormInference: from its variables to the rows.
struct MovingStatistics {
  Channels channels;
  BufferId gamma, beta, mean, variance;
  float epsilon;
  NormRows rows;

  void fill(const CallContext& c) const;
};
MovingStatistics moving_statistics(const graph::Node& norm, const Channels& ch,
                                   const NormRows& rows, Lowering& l);

template <class T>
void normalize(const CallContext& c, const simd::Typed<T>& kernels, const T* x, const Channels& ch,
               std::int64_t block, const NormRows& rows, T* y) {
  over_planes(c, ch.shape, block, [&](const PlanePart& part) {
    kernels.scale_shift(part.shape, x + part.element, rows.at(c, part.channel), y + part.element);
  });
}

// Adds an instruction that applies the activation to y in place, if the norm's kernels do not apply
// it.
void activate_unfused(Lowering& l, const graph::Activation& activation, const Operand& y);

// Returns the batch norm, of either form, that made the output of a backward form with an
// activation; null if it is not in the graph.
const graph::Node* find_forward(const graph::Graph& graph, const graph::Node& backward);

}  // namespace trainer::backend::cpu
