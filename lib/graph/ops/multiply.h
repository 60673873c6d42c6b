#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// x, factor -> x * factor. The factor has the shape of x, or is [batch, 1, 1, channels], or has no
// batch and the last dimensions of x.
struct Multiply {
  static constexpr const char* kName = "multiply";
  std::string text() const { return ""; }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// a, [b] -> the sum of a * b (of a alone) over the elements that a factor or bias of this shape is
// repeated for: the gradient of the factor of Multiply and of the bias of AddBias.
struct SumProduct {
  Shape shape;

  static constexpr const char* kName = "sum_product";
  std::string text() const { return to_string(shape); }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
