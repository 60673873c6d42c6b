#include "graph/ops/multiply.h"

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

// True if `part` has one number per sample and channel of x.
bool is_of_channels(const Shape& x, const Shape& part) {
  return x.rank() == 4 && part == Shape{kBatch, 1, 1, x[3]};
}

// True if `part` is repeated over x, or has the shape of x.
bool is_repeated(const Shape& x, const Shape& part) {
  return part == x || is_of_channels(x, part) || ends_with(x, part);
}

}  // namespace

Outputs Multiply::infer(const ShapeContext& context) const {
  if (context.inputs.size() != 2) {
    fail(context, "multiplies two inputs, got ", context.inputs.size(),
         "; name them with inputs: [first, second]");
  }
  const Typed &x = floats(context, 0), &factor = floats(context, 1);
  if (!is_repeated(x.shape, factor.shape)) {
    fail(context, "its inputs are ", to_string(x.shape), " and ", to_string(factor.shape),
         "; the second must have the first's shape",
         x.shape.rank() == 4 ? concat(" or be ", to_string(Shape{kBatch, 1, 1, x.shape[3]}),
                                      ", which global_average_pool: {keepdims: true} makes")
                             : "");
  }
  return {x};
}

Gradients Multiply::differentiate(GradientContext& context) const {
  Gradients gradients(2, kNoValue);
  if (context.wants(0)) gradients[0] = context.emit1(Multiply{}, {context.dy(), context.x(1)});
  if (context.wants(1)) {
    gradients[1] =
        context.emit1(SumProduct{context.shape_of(context.x(1))}, {context.dy(), context.x(0)});
  }
  return gradients;
}

Outputs SumProduct::infer(const ShapeContext& context) const {
  if (context.inputs.size() != 1) expect_inputs(context, 2);
  const Typed& a = floats(context, 0);
  if (context.inputs.size() == 2) expect_shape(context, 1, a.shape, "second factor");
  if (!is_repeated(a.shape, shape)) {
    fail(context, "cannot sum ", to_string(a.shape), " to ", to_string(shape));
  }
  return {{shape, shape.batched() ? a.type : DType::kFloat32}};
}

}  // namespace trainer::graph
