#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// x [batch, n] -> y [batch, n]: e^x divided by its sum over the last dimension.
struct Softmax {
  static constexpr const char* kName = "softmax";
  std::string text() const { return ""; }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// y, dy -> dx
struct SoftmaxBackward {
  static constexpr const char* kName = "softmax_backward";
  std::string text() const { return ""; }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
