#include "graph/ops/dense.h"

#include "graph/contexts.h"

namespace trainer::graph {

std::string Dense::text() const { return words({flag(bias, "bias"), activation.text()}); }

Outputs Dense::infer(const ShapeContext& context) const {
  expect_inputs(context, bias ? 3 : 2);
  const Typed& x = rows(context, 0, "put flatten or global_average_pool before it");
  const Shape& kernel = context.inputs[1].shape;
  if (kernel.rank() != 2 || kernel[0] != x.shape[1]) {
    fail(context, "kernel is ", to_string(kernel), ", expected [", x.shape[1],
         ", units] for the input ", to_string(x.shape));
  }
  if (bias) expect_shape(context, 2, {kernel[1]}, "bias");
  return {{{kBatch, kernel[1]}, x.type}};
}

Gradients Dense::differentiate(GradientContext& context) const {
  Gradients gradients(context.node.inputs.size(), kNoValue);
  const ValueId dy = context.before_activation(activation);
  if (context.wants(0)) {
    gradients[0] =
        context.emit1(DenseBackwardData{context.shape_of(context.x(0))[1]}, {dy, context.x(1)});
  }
  const bool wants_bias = bias && context.wants(2);
  if (context.wants(1) || wants_bias) {
    const auto made = context.emit(DenseBackwardWeights{wants_bias}, {context.x(0), dy});
    gradients[1] = made[0];
    if (wants_bias) gradients[2] = made[1];
  }
  return gradients;
}

std::int64_t Dense::flops(const NodeShapes& shapes) const { return 2 * shapes.input(1).elements(); }

Outputs DenseBackwardData::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  const Typed& dy = rows(context, 0, "");
  expect_shape(context, 1, {inputs, dy.shape[1]}, "kernel");
  return {{{kBatch, inputs}, dy.type}};
}

std::int64_t DenseBackwardData::flops(const NodeShapes& shapes) const {
  return 2 * shapes.input(1).elements();
}

std::string DenseBackwardWeights::text() const { return flag(bias, "bias"); }

Outputs DenseBackwardWeights::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  const std::int64_t inputs = rows(context, 0, "").shape[1];
  const std::int64_t units = rows(context, 1, "").shape[1];
  Outputs outputs{{{inputs, units}, DType::kFloat32}};
  if (bias) outputs.push_back({{units}, DType::kFloat32});
  return outputs;
}

std::int64_t DenseBackwardWeights::flops(const NodeShapes& shapes) const {
  return 2 * shapes.output(0).elements();
}

}  // namespace trainer::graph
