#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// x [batch, tokens, channels], first [count, channels] -> [batch, count + tokens, channels], with
// `first` before the tokens of each sample.
struct PrependTokens {
  static constexpr const char* kName = "prepend_tokens";
  std::string text() const { return ""; }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
