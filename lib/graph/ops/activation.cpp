#include "graph/ops/activation.h"

#include "graph/contexts.h"

namespace trainer::graph {

const char* to_string(Activation::Kind kind) {
  switch (kind) {
    case Activation::Kind::kLinear:
      return "linear";
    case Activation::Kind::kRelu:
      return "relu";
    case Activation::Kind::kRelu6:
      return "relu6";
    case Activation::Kind::kLeakyRelu:
      return "leaky_relu";
    case Activation::Kind::kElu:
      return "elu";
    case Activation::Kind::kSigmoid:
      return "sigmoid";
    case Activation::Kind::kTanh:
      return "tanh";
    case Activation::Kind::kGelu:
      return "gelu";
    case Activation::Kind::kSwish:
      return "swish";
    case Activation::Kind::kHardSigmoid:
      return "hard_sigmoid";
    case Activation::Kind::kHardSwish:
      return "hard_swish";
    case Activation::Kind::kSelu:
      return "selu";
    case Activation::Kind::kNegativePart:
      return "negative_part";
  }
  return "?";
}

std::string Activation::text() const {
  if (linear()) return "";
  if (alpha == 0) return to_string(kind);
  return concat(to_string(kind), " ", alpha);
}

std::string Activate::text() const { return activation.text(); }

Outputs Activate::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  return {floats(context, 0)};
}

Gradients Activate::differentiate(GradientContext& context) const {
  if (context.dy() == kNoValue || !context.wants(0)) return {kNoValue};
  if (activation.linear()) return {context.dy()};
  const ValueId s = activation.differentiable_from_output() ? context.y() : context.x(0);
  return {context.emit1(ActivateBackward{activation}, {s, context.dy()})};
}

std::string ActivateBackward::text() const { return activation.text(); }

Outputs ActivateBackward::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  expect_shape(context, 1, floats(context, 0).shape, "gradient of the output");
  return {floats(context, 1)};
}

}  // namespace trainer::graph
