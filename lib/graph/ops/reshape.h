#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// x -> the same elements in the same order (row-major, NHWC) as `shape`, which is [batch, ...].
struct Reshape {
  Shape shape;

  static constexpr const char* kName = "reshape";
  std::string text() const { return to_string(shape); }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
