// Sums of batch norms over the whole batch: over the workers, in their order, and over the ranks
// where there are several. All workers of a program call these at once; all get the same bits.
#pragma once

#include <cstdint>
#include <functional>

#include "backend/cpu/ops/norm_parts.h"

namespace trainer::backend::cpu {

// A worker's moments of each channel about a shift of its own, of so many samples.
struct WorkerMoments {
  std::int64_t samples;
  const float* shift;
  const simd::Moments* moments;
};
// Sets mean and inverse_std = 1 / sqrt(biased variance + epsilon), both [channels].
void combine_moments(const StepContext& c, const WorkerMoments& mine, const Channels& ch,
                     float* mean, float* inverse_std, float epsilon);

// A worker's sums for the backward form, of so many samples.
struct WorkerSums {
  std::int64_t samples;
  const simd::GradientSums* sums;
};
// Calls take(channel, the sums of all) for each channel.
void combine_sums(const StepContext& c, const WorkerSums& mine, std::int64_t channels,
                  const std::function<void(std::int64_t, const simd::GradientSums&)>& take);

}  // namespace trainer::backend::cpu
