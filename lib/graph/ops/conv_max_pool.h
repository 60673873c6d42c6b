// A convolution that is fused with its max pooling, and its gradient.
#pragma once

#include <string>

#include "graph/ops/conv.h"

namespace trainer::graph {

// A convolution of an image of few channels, its activation and a max pooling in one pass over
// memory: x, kernel, [bias] -> y, index. `index` (uint8) is the position of the winner in the
// pooling window, row by row. The convolution's padding after the image may be negative, which
// leaves the last pixels unread.
struct ConvMaxPool {
  Conv conv;
  Window pool;

  static constexpr const char* kName = "conv_max_pool";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes& shapes) const;
  int alias(int) const { return -1; }
};

// x, dy, y, index -> dkernel, [dbias]. There is no gradient of x.
struct ConvMaxPoolBackwardWeights {
  Conv conv;
  Window pool;
  Shape kernel;

  static constexpr const char* kName = "conv_max_pool_backward_weights";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes& shapes) const;
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
