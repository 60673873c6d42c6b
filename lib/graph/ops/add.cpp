#include "graph/ops/add.h"

#include "graph/contexts.h"

namespace trainer::graph {

Outputs Add::infer(const ShapeContext& context) const {
  expect_two_or_more(context);
  const Typed& first = floats(context, 0);
  for (std::size_t i = 1; i < context.inputs.size(); ++i) {
    if (floats(context, i).shape != first.shape) {
      fail(context, "adds values of one shape, but its inputs are ", to_string(first.shape),
           " and ", to_string(context.inputs[i].shape));
    }
  }
  return {first};
}

Gradients Add::differentiate(GradientContext& context) const {
  Gradients gradients(context.node.inputs.size(), kNoValue);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (context.wants(i)) gradients[i] = context.dy();
  }
  return gradients;
}

Outputs AddBias::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  const Typed& x = floats(context, 0);
  if (!ends_with(x.shape, context.inputs[1].shape)) {
    fail(context, "bias is ", to_string(context.inputs[1].shape),
         ", expected the last dimensions of ", to_string(x.shape));
  }
  return {x};
}

Gradients AddBias::differentiate(GradientContext& context) const {
  Gradients gradients(2, kNoValue);
  if (context.wants(0)) gradients[0] = context.dy();
  if (context.wants(1)) {
    gradients[1] = context.emit1(SumProduct{context.shape_of(context.x(1))}, {context.dy()});
  }
  return gradients;
}

}  // namespace trainer::graph
