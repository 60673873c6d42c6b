#include "graph/ops/up_sample.h"

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

template <class Op>
std::string size_text(const Op& op) {
  return concat(spell(op.kind), " ", op.height, "x", op.width);
}

template <class Op>
void expect_factors(const Op& op, const ShapeContext& context) {
  if (op.height < 1 || op.width < 1) {
    fail(context, "size is ", op.height, "x", op.width, ", expected 1 or more");
  }
}

}  // namespace

std::string UpSample::text() const { return size_text(*this); }

Outputs UpSample::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  expect_factors(*this, context);
  const Typed& x = image(context, 0);
  return {{{kBatch, x.shape[1] * height, x.shape[2] * width, x.shape[3]}, x.type}};
}

Gradients UpSample::differentiate(GradientContext& context) const {
  if (context.dy() == kNoValue || !context.wants(0)) return {kNoValue};
  return {context.emit1(UpSampleBackward{kind, height, width}, {context.dy()})};
}

std::string UpSampleBackward::text() const { return size_text(*this); }

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
