// Element-wise activation functions: the attribute that several ops share, and the ops that apply
// an activation alone.
#pragma once

#include <string>

#include "base/activation.h"
#include "graph/rules.h"

namespace trainer::graph {

// An element-wise function, not softmax. `alpha` is the slope of leaky_relu or the scale of elu.
// hard_sigmoid is relu6(x + 3) / 6, hard_swish is x * hard_sigmoid(x), and negative_part is min(x,
// 0). A NaN stays a NaN: where a layer drops it, the loss stays finite although the network is
// lost.
struct Activation {
  using Kind = ActivationKind;
  Kind kind = Kind::kLinear;
  float alpha = 0;

  bool operator==(const Activation&) const = default;
  bool linear() const { return kind == Kind::kLinear; }
  // True if the derivative can be computed from the output alone. Only then can a training graph
  // fuse the activation into the op before it.
  constexpr bool differentiable_from_output() const { return kind < Kind::kGelu; }
  // True if backends can apply it inside the op before it.
  bool fusable() const { return kind <= Kind::kSwish; }
  // "leaky_relu 0.1"; empty for linear.
  std::string text() const;
};
// Keras's SELU is scale * (x > 0 ? x : alpha * (e^x - 1)).
inline constexpr float kSeluAlpha = 1.6732632423543772f, kSeluScale = 1.0507009873554805f;

// x -> y of the same shape
struct Activate {
  Activation activation;

  static constexpr const char* kName = "activate";
  std::string text() const { return activation.text(); }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// s, dy -> dx. s is y if activation.differentiable_from_output(), else x.
struct ActivateBackward {
  Activation activation;

  static constexpr const char* kName = "activate_backward";
  std::string text() const { return activation.text(); }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
