#include "graph/ops/conv.h"

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

std::string groups_text(std::int64_t count) { return count == 1 ? "" : concat("groups ", count); }

// Input 1 is a kernel for images of shape `x`.
void expect_kernel(const ShapeContext& context, const Window& window, std::int64_t groups,
                   const Shape& x) {
  const Shape& kernel = context.inputs[1].shape;
  if (groups < 1 || x[3] % groups != 0) {
    fail(context, "groups: ", groups, " does not divide the ", x[3], " channels of the input ",
         to_string(x));
  }
  if (kernel.rank() != 4 || kernel[0] != window.size[0] || kernel[1] != window.size[1] ||
      kernel[2] * groups != x[3]) {
    fail(context, "kernel is ", to_string(kernel), ", expected [", window.size[0], ", ",
         window.size[1], ", ", x[3] / groups, ", filters] for the input ", to_string(x));
  }
  if (kernel[3] < 1 || kernel[3] % groups != 0) {
    fail(context, "groups: ", groups, " does not divide the ", kernel[3], " filters");
  }
}

// Returns the operations of a convolution, two per weight and output pixel; `y` is the shape of its
// output.
std::int64_t conv_flops(const Shape& kernel, const Shape& y) {
  return 2 * kernel.elements() * y[1] * y[2];
}

}  // namespace

std::string Conv::text() const {
  return words({window.text(), groups_text(groups), flag(bias, "bias"), activation.text()});
}

Outputs Conv::infer(const ShapeContext& context) const {
  expect_inputs(context, bias ? 3 : 2);
  const Typed& x = image(context, 0);
  expect_kernel(context, window, groups, x.shape);
  const std::int64_t filters = context.inputs[1].shape[3];
  if (bias) expect_shape(context, 2, {filters}, "bias");
  return {{slide(context, window, x.shape, filters), x.type}};
}

Gradients Conv::differentiate(GradientContext& context) const {
  Gradients gradients(context.node.inputs.size(), kNoValue);
  const ValueId dy = context.before_activation(activation);
  if (context.wants(0)) {
    gradients[0] = context.emit1(ConvBackwardData{window, groups, context.shape_of(context.x(0))},
                                 {dy, context.x(1)});
  }
  const bool wants_bias = bias && context.wants(2);
  if (context.wants(1) || wants_bias) {
    const auto made = context.emit(
        ConvBackwardWeights{window, groups, wants_bias, context.shape_of(context.x(1))},
        {context.x(0), dy});
    gradients[1] = made[0];
    if (wants_bias) gradients[2] = made[1];
  }
  return gradients;
}

std::int64_t Conv::flops(const NodeShapes& shapes) const {
  return conv_flops(shapes.input(1), shapes.output(0));
}

std::string ConvBackwardData::text() const { return words({window.text(), groups_text(groups)}); }

Outputs ConvBackwardData::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  const Typed& dy = image(context, 0);
  expect_kernel(context, window, groups, input);
  expect_shape(context, 0, slide(context, window, input, context.inputs[1].shape[3]),
               "gradient of the output");
  return {{input, dy.type}};
}

// In a forward graph it is the transposed convolution, whose gradients are a convolution and its
// kernel's gradient with both images exchanged.
Gradients ConvBackwardData::differentiate(GradientContext& context) const {
  Gradients gradients(2, kNoValue);
  if (context.wants(0)) {
    gradients[0] = context.emit1(Conv{window, groups, false, {}}, {context.dy(), context.x(1)});
  }
  if (context.wants(1)) {
    gradients[1] =
        context.emit1(ConvBackwardWeights{window, groups, false, context.shape_of(context.x(1))},
                      {context.dy(), context.x(0)});
  }
  return gradients;
}

std::int64_t ConvBackwardData::flops(const NodeShapes& shapes) const {
  return conv_flops(shapes.input(1), shapes.input(0));
}

std::string ConvBackwardWeights::text() const {
  return words({window.text(), groups_text(groups), flag(bias, "bias")});
}

Outputs ConvBackwardWeights::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  const Typed& x = image(context, 0);
  expect_shape(context, 1, slide(context, window, x.shape, kernel[3]), "gradient of the output");
  Outputs outputs{{kernel, DType::kFloat32}};
  if (bias) outputs.push_back({{kernel[3]}, DType::kFloat32});
  return outputs;
}

std::int64_t ConvBackwardWeights::flops(const NodeShapes& shapes) const {
  return conv_flops(kernel, shapes.input(1));
}

}  // namespace trainer::graph
