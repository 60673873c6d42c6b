// graph::ClassRank of rows of n numbers. Labels are as in loss.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"
#include "graph/ops/class_rank.h"

namespace trainer::backend::cuda {

void class_rank(const graph::ClassRank& op, const void* logits, DType type, const void* labels,
                DType label_type, std::int32_t* ranks, std::int64_t rows, std::int64_t n,
                cudaStream_t stream);

}  // namespace trainer::backend::cuda
