// Softmax, losses, ranks of classes, penalties of parameters and the numbers of a call. Rows of n
// numbers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/kernels/step.h"
#include "base/types.h"
#include "graph/op.h"

namespace trainer::backend::cuda {

void softmax(const void* x, void* y, DType type, std::int64_t rows, std::int64_t n,
             cudaStream_t stream);
void softmax_backward(const void* y, const void* dy, void* dx, DType type, std::int64_t rows,
                      std::int64_t n, cudaStream_t stream);
// graph::Loss with the formulas of lib/backend/cpu/loss.cpp. labels: int32 [rows] or float32
// [rows, n]. dlogits (null: not wanted) are of `gradient_type` and multiplied by
// scalars->gradient_scale * state->loss_scale. class_weight: op.class_weight in device memory, null
// when there are none.
void loss(const graph::Loss& op, const void* logits, DType type, const void* labels,
          DType label_type, const float* class_weight, float* losses, void* dlogits,
          DType gradient_type, const StepScalars* scalars, const StepState* state,
          std::int64_t rows, std::int64_t n, cudaStream_t stream);
// graph::ClassRank.
void class_rank(const graph::ClassRank& op, const void* logits, DType type, const void* labels,
                DType label_type, std::int32_t* ranks, std::int64_t rows, std::int64_t n,
                cudaStream_t stream);
// graph::L2Penalty, summed in double in an order that depends on the count alone. `scratch` holds
// 1024 doubles.
void penalty(const graph::L2Penalty& op, const float* w, std::int64_t count, float* y,
             double* scratch, cudaStream_t stream);

// Adds a part of a call to its numbers, in sample order and double: sums of losses, ranks of 0,
// whether all losses are finite. Null pointers are not counted. With `first` the numbers start
// anew, as zeros and finite; penalty is taken from the first part.
void add_numbers(const float* losses, const std::int32_t* ranks, const float* penalty,
                 std::int64_t samples, bool first, StepNumbers* numbers, cudaStream_t stream);

}  // namespace trainer::backend::cuda
