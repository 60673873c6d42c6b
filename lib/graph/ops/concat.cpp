#include "graph/ops/concat.h"

#include "graph/contexts.h"

namespace trainer::graph {

Outputs Concat::infer(const ShapeContext& context) const {
  expect_two_or_more(context);
  Typed y = floats(context, 0);
  const std::size_t last = y.shape.rank() - 1;
  for (std::size_t i = 1; i < context.inputs.size(); ++i) {
    Shape other = floats(context, i).shape;
    const bool same_rank = other.rank() == y.shape.rank();
    const std::int64_t channels = same_rank ? other[last] : 0;
    if (same_rank) other[last] = y.shape[last];
    if (other != y.shape) {
      fail(context, "joins along the channels, so all other dimensions have to be equal, but its ",
           "inputs are ", to_string(context.inputs[0].shape), " and ",
           to_string(context.inputs[i].shape));
    }
    y.shape[last] += channels;
  }
  return {y};
}

Gradients Concat::differentiate(GradientContext& context) const {
  Gradients gradients(context.node.inputs.size(), kNoValue);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Shape shape = context.shape_of(context.x(i));
    const std::int64_t end = begin + shape[shape.rank() - 1];
    if (context.wants(i)) gradients[i] = context.emit1(Slice{begin, end}, {context.dy()});
    begin = end;
  }
  return gradients;
}

std::string Slice::text() const { return concat(begin, ":", end); }

Outputs Slice::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  Typed y = floats(context, 0);
  const std::size_t last = y.shape.rank() - 1;
  if (begin < 0 || begin >= end || end > y.shape[last]) {
    fail(context, "channels ", begin, " to ", end, " are not all in ", to_string(y.shape));
  }
  y.shape[last] = end - begin;
  return {y};
}

}  // namespace trainer::graph
