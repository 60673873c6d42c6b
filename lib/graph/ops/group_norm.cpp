#include "graph/ops/group_norm.h"

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

// Returns input 0, whose channels the groups must divide.
const Typed& grouped(const GroupNormAttributes& op, const ShapeContext& context) {
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

std::string GroupNormAttributes::text() const {
  return words({per_pixel ? "of pixels" : "", groups > 1 ? concat("groups ", groups) : "",
                concat("epsilon ", epsilon)});
}

Outputs GroupNorm::infer(const ShapeContext& context) const {
  expect_inputs(context, 3);
  const Typed& x = grouped(*this, context);
  expect_shape(context, 1, channel_shape(x.shape), "gamma");
  expect_shape(context, 2, channel_shape(x.shape), "beta");
  return {x};
}

Gradients GroupNorm::differentiate(GradientContext& context) const {
  return context.emit(GroupNormBackward{groups, per_pixel, epsilon},
                      {context.x(0), context.dy(), context.x(1)});
}

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
