#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// -> `shape` of zeros: the gradient of a parameter that does not change the loss.
struct ZeroGradient {
  Shape shape;

  static constexpr const char* kName = "zero_gradient";
  std::string text() const { return ""; }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
