// The rules that Conv shares with the ops that contain a convolution.
#pragma once

#include "graph/contexts.h"
#include "graph/ops/conv.h"

namespace trainer::graph {

// Returns the operations of a convolution, two per weight and output pixel; `y` is the shape of its
// output.
std::int64_t conv_flops(const Shape& kernel, const Shape& y);

// Returns the shape of the output for images of shape `x`.
Shape convolved(const Conv& op, const Shape& x, const Shape& kernel);

// Returns the output for the inputs x, kernel and [bias]. `may_cut`: the padding may be negative.
// Throws ConfigError if the inputs do not fit the op.
Typed convolve(const Conv& op, const ShapeContext& context, bool may_cut);

// Returns the outputs of a gradient of the weights: dkernel, [dbias].
Outputs weight_gradients(const Shape& kernel, bool bias);

}  // namespace trainer::graph
