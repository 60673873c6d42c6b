#include "graph/ops/activation.h"

#include "graph/contexts.h"

namespace trainer::graph {

std::string Activation::text() const {
  if (linear()) return "";
  if (kind == Kind::kNegativePart) return "negative_part";
  if (alpha == 0) return std::string(spell(kind));
  return concat(spell(kind), " ", alpha);
}

Outputs Activate::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  return {floats(context, 0)};
}

Gradients Activate::differentiate(GradientContext& context) const {
  if (activation.linear()) return {context.dy()};
  const ValueId s = activation.differentiable_from_output() ? context.y() : context.x(0);
  return {context.emit1(ActivateBackward{activation}, {s, context.dy()})};
}

Outputs ActivateBackward::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  expect_shape(context, 1, floats(context, 0).shape, "gradient of the output");
  return {floats(context, 1)};
}

}  // namespace trainer::graph
