#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {

const char* name(const Dense&) { return "dense"; }
std::string text(const Dense& op) {
  return words({flag(op.bias, "bias"), activation_text(op.activation)});
}
std::int64_t flops(const Dense&, const Operands& at) { return 2 * at.input(1).elements(); }
int alias(const Dense&, int) { return -1; }

Outputs infer(const Dense& op, const Site& site) {
  expect_inputs(site, op.bias ? 3 : 2);
  const Typed& x = rows(site, 0, "put flatten or global_average_pool before it");
  const Shape& kernel = site.inputs[1].shape;
  if (kernel.rank() != 2 || kernel[0] != x.shape[1]) {
    fail(site, "kernel is ", to_string(kernel), ", expected [", x.shape[1],
         ", units] for the input ", to_string(x.shape));
  }
  if (op.bias) expect_shape(site, 2, {kernel[1]}, "bias");
  return {{{kBatch, kernel[1]}, x.type}};
}

Gradients differentiate(const Dense& op, GradientSite& site) {
  Gradients gradients(site.node.inputs.size(), kNoValue);
  if (site.dy() == kNoValue) return gradients;
  const ValueId dy = site.before_activation(op.activation);
  if (site.wants(0)) {
    gradients[0] = site.emit1(DenseBackwardData{site.shape_of(site.x(0))[1]}, {dy, site.x(1)});
  }
  const bool bias = op.bias && site.wants(2);
  if (site.wants(1) || bias) {
    const auto made = site.emit(DenseBackwardWeights{bias}, {site.x(0), dy});
    gradients[1] = made[0];
    if (bias) gradients[2] = made[1];
  }
  return gradients;
}

const char* name(const DenseBackwardData&) { return "dense_backward_data"; }
std::string text(const DenseBackwardData&) { return ""; }
std::int64_t flops(const DenseBackwardData&, const Operands& at) {
  return 2 * at.input(1).elements();
}
int alias(const DenseBackwardData&, int) { return -1; }

Outputs infer(const DenseBackwardData& op, const Site& site) {
  expect_inputs(site, 2);
  const Typed& dy = rows(site, 0, "");
  expect_shape(site, 1, {op.inputs, dy.shape[1]}, "kernel");
  return {{{kBatch, op.inputs}, dy.type}};
}

const char* name(const DenseBackwardWeights&) { return "dense_backward_weights"; }
std::string text(const DenseBackwardWeights& op) { return flag(op.bias, "bias"); }
std::int64_t flops(const DenseBackwardWeights&, const Operands& at) {
  return 2 * at.output(0).elements();
}
int alias(const DenseBackwardWeights&, int) { return -1; }

Outputs infer(const DenseBackwardWeights& op, const Site& site) {
  expect_inputs(site, 2);
  const std::int64_t inputs = rows(site, 0, "").shape[1];
  const std::int64_t units = rows(site, 1, "").shape[1];
  Outputs outputs{{{inputs, units}, DType::kFloat32}};
  if (op.bias) outputs.push_back({{units}, DType::kFloat32});
  return outputs;
}

Gradients differentiate(const DenseBackwardData&, GradientSite& site) { no_gradient(site); }
Gradients differentiate(const DenseBackwardWeights&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
