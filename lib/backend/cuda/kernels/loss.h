// Losses of rows of n numbers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/kernels/step.h"
#include "base/types.h"
#include "graph/ops/loss.h"

namespace trainer::backend::cuda {

// graph::Loss with the formulas of lib/backend/cpu/ops/loss.cpp. labels: int32 [rows] or float32
// [rows, n]. dlogits (null: not wanted) are of `gradient_type` and multiplied by
// scalars->gradient_scale * state->loss_scale. weights: op.class_weight or op.target_weight in
// device memory, null if the op has none.
void loss(const graph::Loss& op, const void* logits, DType type, const void* labels,
          DType label_type, const float* weights, float* losses, void* dlogits, DType gradient_type,
          const StepScalars* scalars, const StepState* state, std::int64_t rows, std::int64_t n,
          cudaStream_t stream);
}  // namespace trainer::backend::cuda
