// Finds the beginning of a segment's chunks.
#pragma once

#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/step/update.h"

namespace trainer::backend::cuda {

// The first chunk of a segment or of one after it; chunks are in the order of the segments.
__device__ inline std::int64_t find_first_chunk(const UpdateChunk* chunks, std::int64_t count,
                                                std::int64_t segment) {
  std::int64_t first = 0, last = count;
  while (first < last) {
    const std::int64_t middle = (first + last) / 2;
    if (chunks[middle].segment < segment) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

}  // namespace trainer::backend::cuda
