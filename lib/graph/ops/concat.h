#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// Two or more inputs -> joined along the last dimension, the channels
struct Concat {
  static constexpr const char* kName = "concat";
  std::string text() const { return ""; }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// x -> its channels [begin, end): the gradient of Concat.
struct Slice {
  std::int64_t begin = 0, end = 0;

  static constexpr const char* kName = "slice";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
