#include "graph/ops/response_norm.h"

#include "graph/contexts.h"

namespace trainer::graph {

std::string ResponseNormAttributes::text() const { return concat("epsilon ", epsilon); }

Outputs ResponseNorm::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  const Typed& x = image(context, 0);
  expect_shape(context, 1, channel_shape(x.shape), "gamma");
  const Typed channels{{kBatch, 1, 1, x.shape[3]}, x.type};
  return {channels, channels};
}

Gradients ResponseNorm::differentiate(GradientContext& context) const {
  const auto made =
      context.emit(ResponseNormBackward{epsilon}, {context.y(1), context.x(1), context.dy()});
  Gradients gradients(2, kNoValue);
  if (context.wants(0)) gradients[0] = context.emit1(Multiply{}, {context.x(0), made[0]});
  if (context.wants(1)) {
    gradients[1] = context.emit1(SumProduct{context.shape_of(context.x(1))}, {made[1]});
  }
  return gradients;
}

Outputs ResponseNormBackward::infer(const ShapeContext& context) const {
  expect_inputs(context, 3);
  const Typed& norms = image(context, 0);
  expect_shape(context, 1, channel_shape(norms.shape), "gamma");
  expect_shape(context, 2, norms.shape, "gradient of the factors");
  return {context.inputs[2], context.inputs[2]};
}

}  // namespace trainer::graph
