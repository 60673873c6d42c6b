#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// The pixels at the sides of an image; for tokens, `top` and `bottom` are those before and after.
struct Margins {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;

  std::string text() const;
};

// x [batch, h, w, c] -> y [batch, top + h + bottom, left + w + right, c] with zeros around x; or
// x [batch, tokens, c] -> y [batch, top + tokens + bottom, c]
struct ZeroPad : Margins {
  static constexpr const char* kName = "zero_pad";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// x -> x without `top`, `bottom`, `left` and `right` pixels at its sides: the gradient of ZeroPad,
// which is the gradient of Crop.
struct Crop : Margins {
  static constexpr const char* kName = "crop";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
