#include "graph/ops/zero_gradient.h"

#include "graph/contexts.h"

namespace trainer::graph {

Outputs ZeroGradient::infer(const ShapeContext& context) const {
  expect_inputs(context, 0);
  return {{shape, DType::kFloat32}};
}

}  // namespace trainer::graph
