// Depthwise convolutions with windows of 3 x 3 positions, strides of 1 or 2 and one output per
// input channel. A thread computes a tile of outputs, so that it reads an input once for several
// outputs. depthwise.h has the general form and calls these.
//
// Many loads of a thread are in progress at the same time (see for_row_groups() in batch_norm.cu).
// Outside of the image a thread reads the nearest pixel and replaces the value, so that no load is
// in a branch: tiles with a branch for each pixel did not make the forward pass faster.
#pragma once

#include <initializer_list>

#include "backend/cuda/kernels/depthwise.h"

namespace trainer::backend::cuda {

// Returns whether the shape and the pointers, which must be aligned to 16 bytes, allow tiles.
bool has_tiles(const DepthwiseShape& shape, std::initializer_list<const void*> pointers);

// These compute what the functions of depthwise.h with the same arguments do.
void depthwise_tiles(const DepthwiseShape& shape, const void* x, const float* kernel,
                     const float* bias, const graph::Activation& activation, void* y, DType type,
                     cudaStream_t stream);
void depthwise_tiles_backward_data(const DepthwiseShape& shape, const void* dy, const float* kernel,
                                   void* dx, DType type, cudaStream_t stream);
// Returns the bytes of `scratch`, for shapes that have tiles.
std::int64_t depthwise_tiles_scratch(const DepthwiseShape& shape);
void depthwise_tiles_backward_weights(const DepthwiseShape& shape, const void* x, const void* dy,
                                      float* dkernel, DType type, void* scratch,
                                      cudaStream_t stream);

}  // namespace trainer::backend::cuda
