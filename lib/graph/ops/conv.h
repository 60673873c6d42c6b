// Convolutions and their gradients. Kernels are [kernel height, kernel width, in / groups, out].
#pragma once

#include <string>

#include "graph/ops/activation.h"
#include "graph/window.h"

namespace trainer::graph {

// x [batch, h, w, in], kernel, [bias [out]] -> y [batch, h', w', out]
struct Conv {
  Window window;
  std::int64_t groups = 1;
  bool bias = false;
  Activation activation;

  static constexpr const char* kName = "conv";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes& shapes) const;
  int alias(int) const { return -1; }
};

// Returns whether each channel of an image has kernels of its own.
inline bool is_depthwise(std::int64_t groups, std::int64_t channels) {
  return groups > 1 && groups == channels;
}

// dy, kernel -> dx. `input` is the shape of x. In a forward graph it is the transposed convolution,
// so that it has a gradient itself.
struct ConvBackwardData {
  Window window;
  std::int64_t groups = 1;
  Shape input;

  static constexpr const char* kName = "conv_backward_data";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes& shapes) const;
  int alias(int) const { return -1; }
};

// x, dy -> dkernel, [dbias]. `kernel` is the shape of the kernel.
struct ConvBackwardWeights {
  Window window;
  std::int64_t groups = 1;
  bool bias = false;
  Shape kernel;

  static constexpr const char* kName = "conv_backward_weights";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes& shapes) const;
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
