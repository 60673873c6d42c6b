#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {
namespace {

// The normalised input: [batch, ..., channels], and [channels] for each of inputs first..last.
const Typed& normalised(const Site& site) {
  const Typed& x = site.inputs[0];
  if (!x.shape.batched() || x.shape.rank() < 2) {
    fail(site, "expects [batch, ..., channels], but its input is ", to_string(x.shape));
  }
  if (!is_float(x.type)) fail(site, "expects floating-point input, got ", to_string(x.type));
  return x;
}

Shape channels_of(const Shape& x) { return {x[x.rank() - 1]}; }

Outputs backward_outputs(const Typed& x, const Typed& dy) {
  const Shape channels = channels_of(x.shape);
  return {{x.shape, dy.type}, {channels, DType::kFloat32}, {channels, DType::kFloat32}};
}

}  // namespace

const char* name(const BatchNorm&) { return "batch_norm"; }
std::string text(const BatchNorm& op) {
  return words({concat("epsilon ", op.epsilon), activation_text(op.activation)});
}
std::int64_t flops(const BatchNorm&, const Operands&) { return 0; }
int alias(const BatchNorm&, int) { return -1; }

Outputs infer(const BatchNorm&, const Site& site) {
  expect_inputs(site, 3);
  const Typed& x = normalised(site);
  const Shape channels = channels_of(x.shape);
  expect_shape(site, 1, channels, "gamma");
  expect_shape(site, 2, channels, "beta");
  return {x, {channels, DType::kFloat32}, {channels, DType::kFloat32}};
}

Gradients differentiate(const BatchNorm& op, GradientSite& site) {
  if (site.dy() == kNoValue) return Gradients(3, kNoValue);
  std::vector<ValueId> inputs{site.x(0), site.dy(), site.x(1), site.y(1), site.y(2)};
  if (!op.activation.linear()) inputs.push_back(site.y());
  return site.emit(BatchNormBackward{op.epsilon, op.activation}, inputs);
}

const char* name(const BatchNormBackward&) { return "batch_norm_backward"; }
std::string text(const BatchNormBackward& op) {
  return words({concat("epsilon ", op.epsilon), activation_text(op.activation)});
}
std::int64_t flops(const BatchNormBackward&, const Operands&) { return 0; }
int alias(const BatchNormBackward&, int) { return -1; }

Outputs infer(const BatchNormBackward& op, const Site& site) {
  expect_inputs(site, op.activation.linear() ? 5 : 6);
  const Typed& x = normalised(site);
  const Shape channels = channels_of(x.shape);
  expect_shape(site, 1, x.shape, "gradient of the output");
  expect_shape(site, 2, channels, "gamma");
  expect_shape(site, 3, channels, "mean");
  expect_shape(site, 4, channels, "inverse deviation");
  if (!op.activation.linear()) expect_shape(site, 5, x.shape, "output");
  return backward_outputs(x, site.inputs[1]);
}

const char* name(const UpdateStatistics&) { return "update_statistics"; }
std::string text(const UpdateStatistics& op) {
  return concat("momentum ", op.momentum, " epsilon ", op.epsilon);
}
std::int64_t flops(const UpdateStatistics&, const Operands&) { return 0; }
int alias(const UpdateStatistics&, int output) { return output; }

Outputs infer(const UpdateStatistics&, const Site& site) {
  expect_inputs(site, 4);
  const Shape& channels = site.inputs[0].shape;
  for (std::size_t i = 1; i < 4; ++i) expect_shape(site, i, channels, "statistic");
  return {{channels, DType::kFloat32}, {channels, DType::kFloat32}};
}

const char* name(const BatchNormInference&) { return "batch_norm_inference"; }
std::string text(const BatchNormInference& op) {
  return words({concat("epsilon ", op.epsilon), activation_text(op.activation)});
}
std::int64_t flops(const BatchNormInference&, const Operands&) { return 0; }
int alias(const BatchNormInference&, int) { return -1; }

Outputs infer(const BatchNormInference&, const Site& site) {
  expect_inputs(site, 5);
  const Typed& x = normalised(site);
  const Shape channels = channels_of(x.shape);
  const char* names[] = {"gamma", "beta", "moving mean", "moving variance"};
  for (std::size_t i = 0; i < 4; ++i) expect_shape(site, i + 1, channels, names[i]);
  return {x};
}

Gradients differentiate(const BatchNormInference& op, GradientSite& site) {
  Gradients gradients(5, kNoValue);
  if (site.dy() == kNoValue) return gradients;
  std::vector<ValueId> inputs{site.x(0), site.dy(), site.x(1), site.x(3), site.x(4)};
  if (!op.activation.linear()) inputs.push_back(site.y());
  const auto made = site.emit(BatchNormInferenceBackward{op.epsilon, op.activation}, inputs);
  for (std::size_t i = 0; i < 3; ++i) gradients[i] = made[i];
  return gradients;
}

const char* name(const BatchNormInferenceBackward&) { return "batch_norm_inference_backward"; }
std::string text(const BatchNormInferenceBackward& op) {
  return words({concat("epsilon ", op.epsilon), activation_text(op.activation)});
}
std::int64_t flops(const BatchNormInferenceBackward&, const Operands&) { return 0; }
int alias(const BatchNormInferenceBackward&, int) { return -1; }

Outputs infer(const BatchNormInferenceBackward& op, const Site& site) {
  expect_inputs(site, op.activation.linear() ? 5 : 6);
  const Typed& x = normalised(site);
  const Shape channels = channels_of(x.shape);
  expect_shape(site, 1, x.shape, "gradient of the output");
  const char* names[] = {"gamma", "moving mean", "moving variance"};
  for (std::size_t i = 0; i < 3; ++i) expect_shape(site, i + 2, channels, names[i]);
  if (!op.activation.linear()) expect_shape(site, 5, x.shape, "output");
  return backward_outputs(x, site.inputs[1]);
}

const char* name(const FoldBatchNorm&) { return "fold_batch_norm"; }
std::string text(const FoldBatchNorm& op) {
  return words({concat("epsilon ", op.epsilon), flag(op.bias, "bias")});
}
std::int64_t flops(const FoldBatchNorm&, const Operands&) { return 0; }
int alias(const FoldBatchNorm&, int) { return -1; }

Outputs infer(const FoldBatchNorm& op, const Site& site) {
  expect_inputs(site, op.bias ? 6 : 5);
  const Shape& kernel = site.inputs[0].shape;
  const Shape channels = channels_of(kernel);
  for (std::size_t i = 1; i < site.inputs.size(); ++i) {
    expect_shape(site, i, channels, "parameter to fold");
  }
  return {{kernel, DType::kFloat32}, {channels, DType::kFloat32}};
}

Gradients differentiate(const BatchNormBackward&, GradientSite& site) { no_gradient(site); }
Gradients differentiate(const UpdateStatistics&, GradientSite& site) { no_gradient(site); }
Gradients differentiate(const BatchNormInferenceBackward&, GradientSite& site) {
  no_gradient(site);
}
Gradients differentiate(const FoldBatchNorm&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
