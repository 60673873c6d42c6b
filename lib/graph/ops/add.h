#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// Two or more inputs of one shape -> their sum
struct Add {
  static constexpr const char* kName = "add";
  std::string text() const { return ""; }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// x, bias with the last dimensions of x -> x + bias
struct AddBias {
  static constexpr const char* kName = "add_bias";
  std::string text() const { return ""; }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
