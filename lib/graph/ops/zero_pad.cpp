#include "graph/ops/zero_pad.h"

#include "graph/contexts.h"

namespace trainer::graph {

std::string Margins::text() const { return concat(top, ",", bottom, ",", left, ",", right); }

Outputs ZeroPad::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  const Typed& x = image(context, 0);
  if (top < 0 || bottom < 0 || left < 0 || right < 0) {
    fail(context, "padding must be 0 or more");
  }
  return {{{kBatch, x.shape[1] + top + bottom, x.shape[2] + left + right, x.shape[3]}, x.type}};
}

Gradients ZeroPad::differentiate(GradientContext& context) const {
  return {context.emit1(Crop{top, bottom, left, right}, {context.dy()})};
}

Outputs Crop::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  const Typed& x = image(context, 0);
  const std::int64_t height = x.shape[1] - top - bottom;
  const std::int64_t width = x.shape[2] - left - right;
  if (height <= 0 || width <= 0) fail(context, "nothing is left of ", to_string(x.shape));
  return {{{kBatch, height, width, x.shape[3]}, x.type}};
}

}  // namespace trainer::graph
