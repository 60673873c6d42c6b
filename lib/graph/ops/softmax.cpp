#include "graph/ops/softmax.h"

#include "graph/contexts.h"

namespace trainer::graph {

Outputs Softmax::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  return {rows(context, 0, "put flatten or global_average_pool before the softmax")};
}

Gradients Softmax::differentiate(GradientContext& context) const {
  return {context.emit1(SoftmaxBackward{}, {context.y(), context.dy()})};
}

Outputs SoftmaxBackward::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  expect_shape(context, 1, floats(context, 0).shape, "gradient of the output");
  return {floats(context, 1)};
}

}  // namespace trainer::graph
