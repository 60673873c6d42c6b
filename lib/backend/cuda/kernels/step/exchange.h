// The trailer of backend/exchange.h in device memory: [not finite, moved, statistics...], float32,
// behind the last bucket of the flat gradients.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/kernels/step.h"

namespace trainer::backend::cuda {

// trailer[0] = all_finite ? 0 : 1, trailer[1] = moved, trailer[2...] = moved ? statistics : 0.
void write_trailer(const StepState* state, const float* statistics, std::int64_t count,
                   float* trailer, cudaStream_t stream);
// After the sum over the ranks, as Trailer::read: not finite: statistics = before; else, if they
// are averaged and any rank moved: statistics = sum / trailer[1]. moved becomes 0 in all cases.
void read_trailer(const float* trailer, bool averaged, const float* before, float* statistics,
                  std::int64_t count, StepState* state, cudaStream_t stream);

}  // namespace trainer::backend::cuda
