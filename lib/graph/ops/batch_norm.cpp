#include "graph/ops/batch_norm.h"

#include <array>

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

// Returns input 0, which must be [batch, ..., channels] of a floating-point type.
const Typed& normalised(const ShapeContext& context) {
  const Typed& x = context.inputs[0];
  if (!x.shape.batched() || x.shape.rank() < 2) {
    fail(context, "expects [batch, ..., channels], but its input is ", to_string(x.shape));
  }
  return floats(context, 0);
}

// `names` are those of inputs 2 to 4.
Outputs infer_backward(const ShapeContext& context, const Activation& activation,
                       const std::array<const char*, 3>& names) {
  expect_inputs(context, activation.linear() ? 5 : 6);
  const Typed& x = normalised(context);
  const Shape channels = channel_shape(x.shape);
  expect_shape(context, 1, x.shape, "gradient of the output");
  for (std::size_t i = 0; i < 3; ++i) expect_shape(context, i + 2, channels, names[i]);
  if (!activation.linear()) expect_shape(context, 5, x.shape, "output");
  const DType type = context.inputs[1].type;
  return {{x.shape, type}, {channels, DType::kFloat32}, {channels, DType::kFloat32}};
}

}  // namespace

std::string NormAttributes::text() const {
  return words({concat("epsilon ", epsilon), activation.text()});
}

Outputs BatchNorm::infer(const ShapeContext& context) const {
  expect_inputs(context, 3);
  const Typed& x = normalised(context);
  const Shape channels = channel_shape(x.shape);
  expect_shape(context, 1, channels, "gamma");
  expect_shape(context, 2, channels, "beta");
  return {x, {channels, DType::kFloat32}, {channels, DType::kFloat32}};
}

Gradients BatchNorm::differentiate(GradientContext& context) const {
  std::vector<ValueId> inputs{context.x(0), context.dy(), context.x(1), context.y(1), context.y(2)};
  if (!activation.linear()) inputs.push_back(context.y());
  return context.emit(BatchNormBackward{epsilon, activation}, inputs);
}

Outputs BatchNormBackward::infer(const ShapeContext& context) const {
  return infer_backward(context, activation, {"gamma", "mean", "inverse deviation"});
}

std::string UpdateStatistics::text() const {
  return concat("momentum ", momentum, " epsilon ", epsilon);
}

Outputs UpdateStatistics::infer(const ShapeContext& context) const {
  expect_inputs(context, 4);
  const Shape& channels = context.inputs[0].shape;
  for (std::size_t i = 1; i < 4; ++i) expect_shape(context, i, channels, "statistic");
  return {{channels, DType::kFloat32}, {channels, DType::kFloat32}};
}

Outputs BatchNormInference::infer(const ShapeContext& context) const {
  expect_inputs(context, 5);
  const Typed& x = normalised(context);
  const Shape channels = channel_shape(x.shape);
  const char* names[] = {"gamma", "beta", "moving mean", "moving variance"};
  for (std::size_t i = 0; i < 4; ++i) expect_shape(context, i + 1, channels, names[i]);
  return {x};
}

Gradients BatchNormInference::differentiate(GradientContext& context) const {
  std::vector<ValueId> inputs{context.x(0), context.dy(), context.x(1), context.x(3), context.x(4)};
  if (!activation.linear()) inputs.push_back(context.y());
  Gradients gradients = context.emit(BatchNormInferenceBackward{epsilon, activation}, inputs);
  gradients.resize(5, kNoValue);
  return gradients;
}

Outputs BatchNormInferenceBackward::infer(const ShapeContext& context) const {
  return infer_backward(context, activation, {"gamma", "moving mean", "moving variance"});
}

std::string FoldBatchNorm::text() const {
  return words({concat("epsilon ", epsilon), flag(bias, "bias")});
}

Outputs FoldBatchNorm::infer(const ShapeContext& context) const {
  expect_inputs(context, bias ? 6 : 5);
  const Shape& kernel = context.inputs[0].shape;
  const Shape channels = channel_shape(kernel);
  for (std::size_t i = 1; i < context.inputs.size(); ++i) {
    expect_shape(context, i, channels, "parameter to fold");
  }
  return {{kernel, DType::kFloat32}, {channels, DType::kFloat32}};
}

}  // namespace trainer::graph
