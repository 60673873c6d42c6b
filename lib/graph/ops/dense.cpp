#include "graph/ops/dense.h"

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

// Input i, which must be [batch, ..., features] of a floating-point type.
const Typed& features(const ShapeContext& context, std::size_t i) {
  const Shape& x = context.inputs[i].shape;
  if (x.rank() < 2 || !x.batched()) {
    fail(context, "expects [batch, ..., features], but its input is ", to_string(x));
  }
  return floats(context, i);
}

Shape with_features(Shape shape, std::int64_t count) {
  shape[shape.rank() - 1] = count;
  return shape;
}

std::int64_t count_features(const Shape& shape) { return shape[shape.rank() - 1]; }

// The operations of one sample for a kernel that is applied to each row of x.
std::int64_t product_flops(const Shape& x, std::int64_t kernel_elements) {
  return 2 * x.elements() / count_features(x) * kernel_elements;
}

}  // namespace

std::string Dense::text() const { return words({flag(bias, "bias"), activation.text()}); }

Outputs Dense::infer(const ShapeContext& context) const {
  expect_inputs(context, bias ? 3 : 2);
  const Typed& x = features(context, 0);
  const Shape& kernel = context.inputs[1].shape;
  if (kernel.rank() != 2 || kernel[0] != count_features(x.shape)) {
    fail(context, "kernel is ", to_string(kernel), ", expected [", count_features(x.shape),
         ", units] for the input ", to_string(x.shape));
  }
  if (bias) expect_shape(context, 2, {kernel[1]}, "bias");
  return {{with_features(x.shape, kernel[1]), x.type}};
}

Gradients Dense::differentiate(GradientContext& context) const {
  Gradients gradients(context.node.inputs.size(), kNoValue);
  const ValueId dy = context.before_activation(activation);
  if (context.wants(0)) {
    const std::int64_t inputs = count_features(context.shape_of(context.x(0)));
    gradients[0] = context.emit1(DenseBackwardData{inputs}, {dy, context.x(1)});
  }
  const bool wants_bias = bias && context.wants(2);
  if (context.wants(1) || wants_bias) {
    const auto made = context.emit(DenseBackwardWeights{wants_bias}, {context.x(0), dy});
    gradients[1] = made[0];
    if (wants_bias) gradients[2] = made[1];
  }
  return gradients;
}

std::int64_t Dense::flops(const NodeShapes& shapes) const {
  return product_flops(shapes.input(0), shapes.input(1).elements());
}

Outputs DenseBackwardData::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  const Typed& dy = features(context, 0);
  expect_shape(context, 1, {inputs, count_features(dy.shape)}, "kernel");
  return {{with_features(dy.shape, inputs), dy.type}};
}

std::int64_t DenseBackwardData::flops(const NodeShapes& shapes) const {
  return product_flops(shapes.input(0), shapes.input(1).elements());
}

std::string DenseBackwardWeights::text() const { return flag(bias, "bias"); }

Outputs DenseBackwardWeights::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  const Shape &x = features(context, 0).shape, &dy = features(context, 1).shape;
  const std::int64_t inputs = count_features(x), units = count_features(dy);
  expect_shape(context, 1, with_features(x, units), "gradient of the output");
  Outputs outputs{{{inputs, units}, DType::kFloat32}};
  if (bias) outputs.push_back({{units}, DType::kFloat32});
  return outputs;
}

std::int64_t DenseBackwardWeights::flops(const NodeShapes& shapes) const {
  return product_flops(shapes.input(0), shapes.output(0).elements());
}

}  // namespace trainer::graph
