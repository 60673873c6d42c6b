#include "graph/ops/group_norm.h"

#include "graph/contexts.h"
#include "graph/op_text.h"

namespace trainer::graph {
namespace {

template <class Op>
std::string norm_text(const Op& op) {
  return words({op.per_pixel ? "of pixels" : "", op.groups > 1 ? concat("groups ", op.groups) : "",
                concat("epsilon ", op.epsilon)});
}

// Returns input 0, whose channels the groups must divide.
template <class Op>
const Typed& grouped(const Op& op, const ShapeContext& context) {
  const Typed& x = floats(context, 0);
  const std::size_t rank = x.shape.rank();
  if (rank < 2 || !x.shape.batched()) {
    fail(context, "expects [batch, ..., channels], but its input is ", to_string(x.shape));
  }
  const std::int64_t channels = x.shape[rank - 1];
  if (op.groups < 1 || channels % op.groups != 0) {
    fail(context, "groups: ", op.groups, " does not divide the ", channels,
         " channels of its input ", to_string(x.shape));
  }
  return x;
}

}  // namespace

std::string GroupNorm::text() const { return norm_text(*this); }

Outputs GroupNorm::infer(const ShapeContext& context) const {
  expect_inputs(context, 3);
  const Typed& x = grouped(*this, context);
  expect_shape(context, 1, channel_shape(x.shape), "gamma");
  expect_shape(context, 2, channel_shape(x.shape), "beta");
  return {x};
}

Gradients GroupNorm::differentiate(GradientContext& context) const {
  Gradients gradients(3, kNoValue);
  if (context.dy() == kNoValue) return gradients;
  if (!context.wants(0) && !context.wants(1) && !context.wants(2)) return gradients;
  const auto made = context.emit(GroupNormBackward{groups, per_pixel, epsilon},
                                 {context.x(0), context.dy(), context.x(1)});
  for (std::size_t i = 0; i < 3; ++i) {
    if (context.wants(i)) gradients[i] = made[i];
  }
  return gradients;
}

std::string GroupNormBackward::text() const { return norm_text(*this); }

Outputs GroupNormBackward::infer(const ShapeContext& context) const {
  expect_inputs(context, 3);
  const Typed& x = grouped(*this, context);
  expect_shape(context, 1, x.shape, "gradient of the output");
  expect_shape(context, 2, channel_shape(x.shape), "gamma");
  return {context.inputs[1],
          {channel_shape(x.shape), DType::kFloat32},
          {channel_shape(x.shape), DType::kFloat32}};
}

}  // namespace trainer::graph
