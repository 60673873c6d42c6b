#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {
namespace {

std::string groups_text(std::int64_t count) { return count == 1 ? "" : concat("groups ", count); }

// Two operations for every weight and output pixel; `y` is the convolution's output.
std::int64_t conv_flops(const Shape& kernel, const Shape& y) {
  return 2 * kernel.elements() * y[1] * y[2];
}

Shape convolved(const Conv& op, const Shape& x, const Shape& kernel) {
  return {kBatch, op.window.output(x[1], 0), op.window.output(x[2], 1), kernel[3]};
}

// Input 1 is a kernel for images of shape `x`.
void expect_kernel(const Site& site, const Window& window, std::int64_t groups, const Shape& x) {
  const Shape& kernel = site.inputs[1].shape;
  if (groups < 1 || x[3] % groups != 0) {
    fail(site, "groups: ", groups, " does not divide the ", x[3], " channels of the input ",
         to_string(x));
  }
  if (kernel.rank() != 4 || kernel[0] != window.size[0] || kernel[1] != window.size[1] ||
      kernel[2] * groups != x[3]) {
    fail(site, "kernel is ", to_string(kernel), ", expected [", window.size[0], ", ",
         window.size[1], ", ", x[3] / groups, ", filters] for the input ", to_string(x));
  }
  if (kernel[3] < 1 || kernel[3] % groups != 0) {
    fail(site, "groups: ", groups, " does not divide the ", kernel[3], " filters");
  }
}

Typed convolve(const Conv& op, const Site& site, bool may_cut = false) {
  const Typed& x = image(site, 0);
  expect_kernel(site, op.window, op.groups, x.shape);
  const std::int64_t filters = site.inputs[1].shape[3];
  if (op.bias) expect_shape(site, 2, {filters}, "bias");
  return {slide(site, op.window, x.shape, filters, may_cut), x.type};
}

Outputs weight_gradients(const Shape& kernel, bool bias) {
  Outputs outputs{{kernel, DType::kFloat32}};
  if (bias) outputs.push_back({{kernel[3]}, DType::kFloat32});
  return outputs;
}

}  // namespace

const char* name(const Conv&) { return "conv"; }
std::string text(const Conv& op) {
  return words({window_text(op.window), groups_text(op.groups), flag(op.bias, "bias"),
                activation_text(op.activation)});
}
std::int64_t flops(const Conv&, const Operands& at) {
  return conv_flops(at.input(1), at.output(0));
}
int alias(const Conv&, int) { return -1; }

Outputs infer(const Conv& op, const Site& site) {
  expect_inputs(site, op.bias ? 3 : 2);
  return {convolve(op, site)};
}

Gradients differentiate(const Conv& op, GradientSite& site) {
  Gradients gradients(site.node.inputs.size(), kNoValue);
  if (site.dy() == kNoValue) return gradients;
  const ValueId dy = site.before_activation(op.activation);
  if (site.wants(0)) {
    gradients[0] = site.emit1(ConvBackwardData{op.window, op.groups, site.shape_of(site.x(0))},
                              {dy, site.x(1)});
  }
  const bool bias = op.bias && site.wants(2);
  if (site.wants(1) || bias) {
    const auto made = site.emit(
        ConvBackwardWeights{op.window, op.groups, bias, site.shape_of(site.x(1))}, {site.x(0), dy});
    gradients[1] = made[0];
    if (bias) gradients[2] = made[1];
  }
  return gradients;
}

const char* name(const ConvBackwardData&) { return "conv_backward_data"; }
std::string text(const ConvBackwardData& op) {
  return words({window_text(op.window), groups_text(op.groups)});
}
std::int64_t flops(const ConvBackwardData&, const Operands& at) {
  return conv_flops(at.input(1), at.input(0));
}
int alias(const ConvBackwardData&, int) { return -1; }

Outputs infer(const ConvBackwardData& op, const Site& site) {
  expect_inputs(site, 2);
  const Typed& dy = image(site, 0);
  expect_kernel(site, op.window, op.groups, op.input);
  expect_shape(site, 0, slide(site, op.window, op.input, site.inputs[1].shape[3]),
               "gradient of the output");
  return {{op.input, dy.type}};
}

const char* name(const ConvBackwardWeights&) { return "conv_backward_weights"; }
std::string text(const ConvBackwardWeights& op) {
  return words({window_text(op.window), groups_text(op.groups), flag(op.bias, "bias")});
}
std::int64_t flops(const ConvBackwardWeights& op, const Operands& at) {
  return conv_flops(op.kernel, at.input(1));
}
int alias(const ConvBackwardWeights&, int) { return -1; }

Outputs infer(const ConvBackwardWeights& op, const Site& site) {
  expect_inputs(site, 2);
  const Typed& x = image(site, 0);
  expect_shape(site, 1, slide(site, op.window, x.shape, op.kernel[3]), "gradient of the output");
  return weight_gradients(op.kernel, op.bias);
}

const char* name(const ConvMaxPool&) { return "conv_max_pool"; }
std::string text(const ConvMaxPool& op) { return text(op.conv) + ", pool " + window_text(op.pool); }
std::int64_t flops(const ConvMaxPool& op, const Operands& at) {
  return conv_flops(at.input(1), convolved(op.conv, at.input(0), at.input(1)));
}
int alias(const ConvMaxPool&, int) { return -1; }

Outputs infer(const ConvMaxPool& op, const Site& site) {
  expect_inputs(site, op.conv.bias ? 3 : 2);
  const Typed convolved = convolve(op.conv, site, true);
  const Shape pooled = slide_pool(site, op.pool, convolved.shape);
  return {{pooled, convolved.type}, {pooled, DType::kUInt8}};
}

Gradients differentiate(const ConvMaxPool& op, GradientSite& site) {
  Gradients gradients(site.node.inputs.size(), kNoValue);
  if (site.dy() == kNoValue) return gradients;
  if (site.wants(0)) no_gradient(site);
  ConvMaxPoolBackwardWeights backward{op.conv, op.pool, site.shape_of(site.x(1))};
  backward.conv.bias = op.conv.bias && site.wants(2);
  if (site.wants(1) || backward.conv.bias) {
    const auto made = site.emit(backward, {site.x(0), site.dy(), site.y(0), site.y(1)});
    gradients[1] = made[0];
    if (backward.conv.bias) gradients[2] = made[1];
  }
  return gradients;
}

const char* name(const ConvMaxPoolBackwardWeights&) { return "conv_max_pool_backward_weights"; }
std::string text(const ConvMaxPoolBackwardWeights& op) {
  return text(op.conv) + ", pool " + window_text(op.pool);
}
std::int64_t flops(const ConvMaxPoolBackwardWeights& op, const Operands& at) {
  return conv_flops(op.kernel, convolved(op.conv, at.input(0), op.kernel));
}
int alias(const ConvMaxPoolBackwardWeights&, int) { return -1; }

Outputs infer(const ConvMaxPoolBackwardWeights& op, const Site& site) {
  expect_inputs(site, 4);
  const Typed& x = image(site, 0);
  const Shape convolved = slide(site, op.conv.window, x.shape, op.kernel[3], true);
  const Shape pooled = slide_pool(site, op.pool, convolved);
  expect_shape(site, 1, pooled, "gradient of the output");
  expect_shape(site, 2, pooled, "output");
  expect_shape(site, 3, pooled, "index");
  return weight_gradients(op.kernel, op.conv.bias);
}

// In a forward graph it is the transposed convolution, whose gradients are a convolution and its
// kernel's gradient with both images exchanged.
Gradients differentiate(const ConvBackwardData& op, GradientSite& site) {
  Gradients gradients(2, kNoValue);
  if (site.dy() == kNoValue) return gradients;
  if (site.wants(0)) {
    gradients[0] = site.emit1(Conv{op.window, op.groups, false, {}}, {site.dy(), site.x(1)});
  }
  if (site.wants(1)) {
    gradients[1] =
        site.emit1(ConvBackwardWeights{op.window, op.groups, false, site.shape_of(site.x(1))},
                   {site.dy(), site.x(0)});
  }
  return gradients;
}
Gradients differentiate(const ConvBackwardWeights&, GradientSite& site) { no_gradient(site); }
Gradients differentiate(const ConvMaxPoolBackwardWeights&, GradientSite& site) {
  no_gradient(site);
}

}  // namespace trainer::graph::rules
