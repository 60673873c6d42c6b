#include "graph/ops/l2_penalty.h"

#include "graph/contexts.h"

namespace trainer::graph {

std::string L2Penalty::text() const {
  return words(
      {factor > 0 || l1 <= 0 ? concat("factor ", factor) : "", l1 > 0 ? concat("l1 ", l1) : ""});
}

Outputs L2Penalty::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  return {{{1}, DType::kFloat32}};
}

}  // namespace trainer::graph
