#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// The attribute of a response norm and of its gradient.
struct ResponseNormAttributes {
  float epsilon = 1e-6f;

  std::string text() const;
};

// x, gamma [channels] -> factors, norms, both [batch, 1, 1, channels]. A norm is the root of the
// sum of x^2 over the pixels of a sample's channel, and a factor is
// 1 + gamma * norm / (mean of the sample's norms + epsilon). Global response normalization
// (Woo et al., arXiv:2301.00808) is x * factors + beta.
struct ResponseNorm : ResponseNormAttributes {
  static constexpr const char* kName = "response_norm";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// norms, gamma, dfactors -> slopes, products, both [batch, 1, 1, channels]. dx is x * slopes, and
// dgamma is the sum of the products over the samples. The slope of a channel of zeros is 0.
struct ResponseNormBackward : ResponseNormAttributes {
  static constexpr const char* kName = "response_norm_backward";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
