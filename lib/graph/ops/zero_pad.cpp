#include "graph/ops/zero_pad.h"

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

// Returns input 0, an image, or tokens if there are no margins at the left and right.
const Typed& image_or_tokens(const ShapeContext& context, const Margins& margins) {
  const Shape& x = context.inputs[0].shape;
  const bool tokens = x.rank() == 3 && x.batched() && margins.left == 0 && margins.right == 0;
  return tokens ? floats(context, 0) : image(context, 0);
}

}  // namespace

std::string Margins::text() const { return concat(top, ",", bottom, ",", left, ",", right); }

Outputs ZeroPad::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  Typed y = image_or_tokens(context, *this);
  if (top < 0 || bottom < 0 || left < 0 || right < 0) {
    fail(context, "padding must be 0 or more");
  }
  y.shape[1] += top + bottom;
  if (y.shape.rank() == 4) y.shape[2] += left + right;
  return {y};
}

Gradients ZeroPad::differentiate(GradientContext& context) const {
  return {context.emit1(Crop{*this}, {context.dy()})};
}

Outputs Crop::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  Typed y = image_or_tokens(context, *this);
  const Shape x = y.shape;
  y.shape[1] -= top + bottom;
  if (x.rank() == 4) y.shape[2] -= left + right;
  if (y.shape[1] <= 0 || y.shape[2] <= 0) fail(context, "nothing is left of ", to_string(x));
  return {y};
}

Gradients Crop::differentiate(GradientContext& context) const {
  return {context.emit1(ZeroPad{*this}, {context.dy()})};
}

}  // namespace trainer::graph
