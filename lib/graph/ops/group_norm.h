#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// x, gamma [channels], beta [channels] -> y = normalised * gamma + beta. The channels are divided
// into `groups` equal parts. Each part is normalised with its mean and biased variance in the
// sample, or in the pixel with `per_pixel`. Keras's LayerNormalization is one group with
// `per_pixel`.
struct GroupNorm {
  std::int64_t groups = 1;
  bool per_pixel = false;
  float epsilon = 1e-3f;

  static constexpr const char* kName = "group_norm";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// x, dy, gamma -> dx, dgamma, dbeta
struct GroupNormBackward {
  std::int64_t groups = 1;
  bool per_pixel = false;
  float epsilon = 1e-3f;

  static constexpr const char* kName = "group_norm_backward";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
