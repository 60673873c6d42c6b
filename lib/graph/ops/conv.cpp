#include "graph/rules.h"

namespace trainer::graph::rules {
namespace {

Typed convolve(const Conv& op, const Site& site, bool may_cut = false) {
  const Typed& x = image(site, 0);
  const Shape& kernel = site.inputs[1].shape;
  if (op.groups < 1 || x.shape[3] % op.groups != 0) {
    fail(site, "groups: ", op.groups, " does not divide the ", x.shape[3],
         " channels of the input ", to_string(x.shape));
  }
  if (kernel.rank() != 4 || kernel[0] != op.window.size[0] || kernel[1] != op.window.size[1] ||
      kernel[2] * op.groups != x.shape[3]) {
    fail(site, "kernel is ", to_string(kernel), ", expected [", op.window.size[0], ", ",
         op.window.size[1], ", ", x.shape[3] / op.groups, ", filters] for the input ",
         to_string(x.shape));
  }
  if (kernel[3] < 1 || kernel[3] % op.groups != 0) {
    fail(site, "groups: ", op.groups, " does not divide the ", kernel[3], " filters");
  }
  if (op.bias) expect_shape(site, 2, {kernel[3]}, "bias");
  return {slide(site, op.window, x.shape, kernel[3], may_cut), x.type};
}

Outputs weight_gradients(const Shape& kernel, bool bias) {
  Outputs outputs{{kernel, DType::kFloat32}};
  if (bias) outputs.push_back({{kernel[3]}, DType::kFloat32});
  return outputs;
}

}  // namespace

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

Outputs infer(const ConvBackwardData& op, const Site& site) {
  expect_inputs(site, 2);
  const Typed& dy = image(site, 0);
  expect_shape(site, 0, slide(site, op.window, op.input, site.inputs[1].shape[3]),
               "gradient of the output");
  return {{op.input, dy.type}};
}

Outputs infer(const ConvBackwardWeights& op, const Site& site) {
  expect_inputs(site, 2);
  const Typed& x = image(site, 0);
  expect_shape(site, 1, slide(site, op.window, x.shape, op.kernel[3]), "gradient of the output");
  return weight_gradients(op.kernel, op.bias);
}

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

Gradients differentiate(const ConvBackwardData&, GradientSite& site) { no_gradient(site); }
Gradients differentiate(const ConvBackwardWeights&, GradientSite& site) { no_gradient(site); }
Gradients differentiate(const ConvMaxPoolBackwardWeights&, GradientSite& site) {
  no_gradient(site);
}

}  // namespace trainer::graph::rules
