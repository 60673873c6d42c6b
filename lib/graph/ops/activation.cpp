#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {
const char* name(const Activate&) { return "activate"; }
std::string text(const Activate& op) { return activation_text(op.activation); }
std::int64_t flops(const Activate&, const Operands&) { return 0; }
int alias(const Activate&, int) { return -1; }

Outputs infer(const Activate&, const Site& site) {
  expect_inputs(site, 1);
  return {floats(site, 0)};
}

Gradients differentiate(const Activate& op, GradientSite& site) {
  if (site.dy() == kNoValue || !site.wants(0)) return {kNoValue};
  if (op.activation.linear()) return {site.dy()};
  const ValueId s = op.activation.differentiable_from_output() ? site.y() : site.x(0);
  return {site.emit1(ActivateBackward{op.activation}, {s, site.dy()})};
}

const char* name(const ActivateBackward&) { return "activate_backward"; }
std::string text(const ActivateBackward& op) { return activation_text(op.activation); }
std::int64_t flops(const ActivateBackward&, const Operands&) { return 0; }
int alias(const ActivateBackward&, int) { return -1; }

Outputs infer(const ActivateBackward&, const Site& site) {
  expect_inputs(site, 2);
  expect_shape(site, 1, floats(site, 0).shape, "gradient of the output");
  return {floats(site, 1)};
}

const char* name(const Softmax&) { return "softmax"; }
std::string text(const Softmax&) { return ""; }
std::int64_t flops(const Softmax&, const Operands&) { return 0; }
int alias(const Softmax&, int) { return -1; }

Outputs infer(const Softmax&, const Site& site) {
  expect_inputs(site, 1);
  return {rows(site, 0, "put flatten or global_average_pool before the softmax")};
}

Gradients differentiate(const Softmax&, GradientSite& site) {
  if (site.dy() == kNoValue || !site.wants(0)) return {kNoValue};
  return {site.emit1(SoftmaxBackward{}, {site.y(), site.dy()})};
}

const char* name(const SoftmaxBackward&) { return "softmax_backward"; }
std::string text(const SoftmaxBackward&) { return ""; }
std::int64_t flops(const SoftmaxBackward&, const Operands&) { return 0; }
int alias(const SoftmaxBackward&, int) { return -1; }

Outputs infer(const SoftmaxBackward&, const Site& site) {
  expect_inputs(site, 2);
  expect_shape(site, 1, floats(site, 0).shape, "gradient of the output");
  return {floats(site, 1)};
}

Gradients differentiate(const ActivateBackward&, GradientSite& site) { no_gradient(site); }
Gradients differentiate(const SoftmaxBackward&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
