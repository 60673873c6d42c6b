#include "graph/ops/attention.h"

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

// The shape and type of y for input 0, the queries, keys and values.
Typed attended(const ShapeContext& context, std::int64_t heads) {
  const Typed& qkv = floats(context, 0);
  const Shape& shape = qkv.shape;
  if (shape.rank() != 3 || !shape.batched() || shape[2] % 3 != 0) {
    fail(context, "expects [batch, tokens, 3 * channels], but its input is ", to_string(shape));
  }
  const std::int64_t channels = shape[2] / 3;
  if (heads < 1 || channels % heads != 0) {
    fail(context, "heads: ", heads, " does not divide the ", channels, " channels of its tokens");
  }
  return {{kBatch, shape[1], channels}, qkv.type};
}

Typed make_log_sums(const Typed& y, std::int64_t heads) {
  return {{kBatch, heads, y.shape[1]}, DType::kFloat32};
}

// The operations of a product of tokens with tokens over the channels of all heads.
std::int64_t product_flops(const Shape& y) { return 2 * y[1] * y[1] * y[2]; }

}  // namespace

std::string Attention::text() const {
  return words({concat("heads ", heads), flag(log_sums, "log_sums")});
}

Outputs Attention::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  Outputs outputs{attended(context, heads)};
  if (log_sums) outputs.push_back(make_log_sums(outputs[0], heads));
  return outputs;
}

Gradients Attention::differentiate(GradientContext& context) const {
  context.extend(Attention{heads, true});
  return {context.emit1(AttentionBackward{heads},
                        {context.x(0), context.y(), context.y(1), context.dy()})};
}

std::int64_t Attention::flops(const NodeShapes& shapes) const {
  return 2 * product_flops(shapes.output(0));
}

std::string AttentionBackward::text() const { return concat("heads ", heads); }

Outputs AttentionBackward::infer(const ShapeContext& context) const {
  expect_inputs(context, 4);
  const Typed y = attended(context, heads);
  expect_shape(context, 1, y.shape, "output");
  expect_shape(context, 2, make_log_sums(y, heads).shape, "log-sum of the rows");
  expect_shape(context, 3, y.shape, "gradient of the output");
  return {context.inputs[0]};
}

// One product computes the probabilities again, four make the gradients.
std::int64_t AttentionBackward::flops(const NodeShapes& shapes) const {
  return 5 * product_flops(shapes.input(1));
}

}  // namespace trainer::graph
