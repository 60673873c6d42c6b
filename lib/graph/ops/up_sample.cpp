#include "graph/ops/up_sample.h"

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

void expect_factors(const UpSampleAttributes& op, const ShapeContext& context) {
  if (op.height < 1 || op.width < 1) {
    fail(context, "size is ", op.height, "x", op.width, ", expected 1 or more");
  }
}

}  // namespace

std::string UpSampleAttributes::text() const {
  return concat(spell(kind), " ", height, "x", width);
}

Outputs UpSample::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  expect_factors(*this, context);
  const Typed& x = image(context, 0);
  return {{{kBatch, x.shape[1] * height, x.shape[2] * width, x.shape[3]}, x.type}};
}

Gradients UpSample::differentiate(GradientContext& context) const {
  return {context.emit1(UpSampleBackward{kind, height, width}, {context.dy()})};
}

Outputs UpSampleBackward::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  expect_factors(*this, context);
  const Typed& dy = image(context, 0);
  if (dy.shape[1] % height != 0 || dy.shape[2] % width != 0) {
    fail(context, "the gradient ", to_string(dy.shape), " is not of an image enlarged ", height,
         "x", width);
  }
  return {{{kBatch, dy.shape[1] / height, dy.shape[2] / width, dy.shape[3]}, dy.type}};
}

}  // namespace trainer::graph
