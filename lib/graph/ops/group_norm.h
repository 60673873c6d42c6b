#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// The attributes of a group norm and of its gradient.
struct GroupNormAttributes {
  std::int64_t groups = 1;
  bool per_pixel = false;
  float epsilon = 1e-3f;

  std::string text() const;
};

// x, gamma [channels], beta [channels] -> y = normalised * gamma + beta. The channels are divided
// into `groups` equal parts. Each part is normalised with its mean and biased variance in the
// sample, or in the pixel with `per_pixel`. Keras's LayerNormalization is one group with
// `per_pixel`.
struct GroupNorm : GroupNormAttributes {
  static constexpr const char* kName = "group_norm";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// x, dy, gamma -> dx, dgamma, dbeta
struct GroupNormBackward : GroupNormAttributes {
  static constexpr const char* kName = "group_norm_backward";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
