// graph::Add. Types, counts and pointers are as in elementwise.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"

namespace trainer::backend::cuda {

inline constexpr std::size_t kMaxSummands = 8;  // summands of one call of add()
// to = sum of the inputs in their order, 1 to kMaxSummands of them; `to` may be one of them.
void add(std::span<const void* const> from, void* to, DType type, std::int64_t count,
         cudaStream_t stream);

}  // namespace trainer::backend::cuda
