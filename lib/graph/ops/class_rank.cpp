#include "graph/ops/class_rank.h"

#include "graph/contexts.h"

namespace trainer::graph {

std::string ClassRank::text() const {
  return threshold == 0 ? "" : concat("threshold ", threshold);
}

Outputs ClassRank::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  const Typed& logits = rows(context, 0, "end the model with flatten and a dense layer");
  if (context.inputs[1].type == DType::kInt32) {
    expect_shape(context, 1, {kBatch}, "the label");
  } else {
    const std::int64_t weights = sample_weight ? 1 : 0;
    expect_shape(context, 1, {kBatch, logits.shape[1] + weights}, "the label");
  }
  return {{{kBatch}, DType::kInt32}};
}

}  // namespace trainer::graph
