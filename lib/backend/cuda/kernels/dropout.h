// graph::Dropout. Types, counts and pointers are as in elementwise.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/kernels/step.h"
#include "base/types.h"
#include "graph/ops/dropout.h"

namespace trainer::backend::cuda {

// Drops elements of `samples` samples of `elements`: the draws of
// lib/backend/cpu/simd/ops/dropout.inl, bit for bit, of sample scalars->first_sample + offset + s
// and step scalars->update.
void dropout(const graph::Dropout& op, const void* x, void* y, DType type, std::int64_t samples,
             std::int64_t elements, std::int64_t offset, const StepScalars* scalars,
             cudaStream_t stream);

// Drops whole channels or whole samples of [samples][rows][c], with a draw for each channel of a
// sample or for the sample. Dropped units are multiplied by 0.
void drop_units(const graph::Dropout& op, const void* x, void* y, DType type, std::int64_t samples,
                std::int64_t rows, std::int64_t c, std::int64_t offset, const StepScalars* scalars,
                cudaStream_t stream);

}  // namespace trainer::backend::cuda
