#include "graph/ops/conv_max_pool.h"

#include "graph/contexts.h"
#include "graph/ops/conv_shapes.h"

namespace trainer::graph {

std::string ConvMaxPool::text() const { return conv.text() + ", pool " + pool.text(); }

Outputs ConvMaxPool::infer(const ShapeContext& context) const {
  expect_inputs(context, conv.bias ? 3 : 2);
  const Typed convolved = convolve(conv, context, true);
  const Shape pooled = slide_pool(context, pool, convolved.shape);
  return {{pooled, convolved.type}, {pooled, DType::kUInt8}};
}

Gradients ConvMaxPool::differentiate(GradientContext& context) const {
  Gradients gradients(context.node.inputs.size(), kNoValue);
  if (context.dy() == kNoValue) return gradients;
  if (context.wants(0)) no_gradient(context);
  ConvMaxPoolBackwardWeights backward{conv, pool, context.shape_of(context.x(1))};
  backward.conv.bias = conv.bias && context.wants(2);
  if (context.wants(1) || backward.conv.bias) {
    const auto made =
        context.emit(backward, {context.x(0), context.dy(), context.y(0), context.y(1)});
    gradients[1] = made[0];
    if (backward.conv.bias) gradients[2] = made[1];
  }
  return gradients;
}

std::int64_t ConvMaxPool::flops(const NodeShapes& shapes) const {
  return conv_flops(shapes.input(1), convolved(conv, shapes.input(0), shapes.input(1)));
}

std::string ConvMaxPoolBackwardWeights::text() const {
  return conv.text() + ", pool " + pool.text();
}

Outputs ConvMaxPoolBackwardWeights::infer(const ShapeContext& context) const {
  expect_inputs(context, 4);
  const Typed& x = image(context, 0);
  const Shape convolved = slide(context, conv.window, x.shape, kernel[3], true);
  const Shape pooled = slide_pool(context, pool, convolved);
  expect_shape(context, 1, pooled, "gradient of the output");
  expect_shape(context, 2, pooled, "output");
  expect_shape(context, 3, pooled, "index");
  return weight_gradients(kernel, conv.bias);
}

std::int64_t ConvMaxPoolBackwardWeights::flops(const NodeShapes& shapes) const {
  return conv_flops(kernel, convolved(conv, shapes.input(0), kernel));
}

}  // namespace trainer::graph
