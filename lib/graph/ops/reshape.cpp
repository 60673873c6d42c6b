#include "graph/ops/reshape.h"

#include <algorithm>

#include "graph/contexts.h"

namespace trainer::graph {

Outputs Reshape::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  const Typed& x = floats(context, 0);
  const auto& dims = shape.dims();
  const bool positive =
      shape.batched() && std::all_of(dims.begin() + 1, dims.end(), [](auto d) { return d > 0; });
  if (!positive || shape.elements() != x.shape.elements()) {
    fail(context, "cannot reshape ", to_string(x.shape), " (", x.shape.elements(),
         " numbers per sample) to ", to_string(shape));
  }
  return {{shape, x.type}};
}

Gradients Reshape::differentiate(GradientContext& context) const {
  return {context.emit1(Reshape{context.shape_of(context.x(0))}, {context.dy()})};
}

}  // namespace trainer::graph
