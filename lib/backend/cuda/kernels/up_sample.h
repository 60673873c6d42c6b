// graph::UpSample: images [n, h, w, c] enlarged by whole factors, and the way back.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"
#include "graph/ops/up_sample.h"

namespace trainer::backend::cuda {

// The smaller image's extents.
struct UpSampleShape {
  std::int64_t n, h, w, c;
  std::int64_t height, width;  // factors
  graph::UpSample::Kind kind;
};

void up_sample(const UpSampleShape& shape, const void* x, void* y, DType type, cudaStream_t stream);
// Each pixel gathers from those that it was a part of, so that sums have one order.
void up_sample_backward(const UpSampleShape& shape, const void* dy, void* dx, DType type,
                        cudaStream_t stream);

}  // namespace trainer::backend::cuda
