#include "graph/ops/tokens.h"

#include "graph/contexts.h"

namespace trainer::graph {

Outputs PrependTokens::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  Typed y = floats(context, 0);
  const Shape& first = context.inputs[1].shape;
  if (y.shape.rank() != 3 || !y.shape.batched()) {
    fail(context, "expects [batch, tokens, channels], but its input is ", to_string(y.shape));
  }
  expect_shape(context, 1, {first.rank() == 2 ? first[0] : 1, y.shape[2]}, "first tokens");
  y.shape[1] += first[0];
  return {y};
}

Gradients PrependTokens::differentiate(GradientContext& context) const {
  const Shape first = context.shape_of(context.x(1));
  const std::int64_t tokens = context.shape_of(context.x(0))[1];
  Gradients gradients(2, kNoValue);
  if (context.wants(0)) {
    gradients[0] = context.emit1(Crop{{.top = first[0]}}, {context.dy()});
  }
  if (context.wants(1)) {
    const ValueId dy = context.emit1(Crop{{.bottom = tokens}}, {context.dy()});
    gradients[1] = context.emit1(SumProduct{first}, {dy});
  }
  return gradients;
}

}  // namespace trainer::graph
