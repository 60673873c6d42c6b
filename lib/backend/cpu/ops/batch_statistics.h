// Sums of batch norms over the whole batch: over the lanes, in their order, and over the ranks if
// there are several. All lanes of a program call these at once and get the same bits.
#pragma once

#include <cstdint>
#include <functional>

#include "backend/cpu/ops/norm_parts.h"

namespace trainer::backend::cpu {

// The moments of each channel about `shift`, over the `samples` samples of a lane.
struct LaneMoments {
  std::int64_t samples;
  const float* shift;
  const simd::Moments* moments;
};
// Sets mean and inverse_std = 1 / sqrt(biased variance + epsilon), both [channels].
void combine_moments(const CallContext& c, const LaneMoments& moments, const Channels& ch,
                     float* mean, float* inverse_std, float epsilon);

// The sums of each channel for the backward form, over the `samples` samples of a lane.
struct LaneSums {
  std::int64_t samples;
  const simd::GradientSums* sums;
};
// Calls take(channel, the sums of all lanes and ranks) for each channel.
void combine_sums(const CallContext& c, const LaneSums& sums, std::int64_t channels,
                  const std::function<void(std::int64_t, const simd::GradientSums&)>& take);

}  // namespace trainer::backend::cpu
