#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// w -> [1]: factor * sum(w^2) + l1 * sum(|w|). It has no gradient op: Update adds the gradient of
// the penalty, 2 * l2 * w + l1 * sign(w), where it reads w.
struct L2Penalty {
  float factor = 0;
  float l1 = 0;

  static constexpr const char* kName = "l2_penalty";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
