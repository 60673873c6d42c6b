#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {

const char* name(const ClassRank&) { return "class_rank"; }
std::string text(const ClassRank& op) {
  return op.threshold == 0 ? "" : concat("threshold ", op.threshold);
}
std::int64_t flops(const ClassRank&, const Operands&) { return 0; }
int alias(const ClassRank&, int) { return -1; }

Outputs infer(const ClassRank& op, const Site& site) {
  expect_inputs(site, 2);
  const Typed& logits = rows(site, 0, "end the model with flatten and a dense layer");
  if (site.inputs[1].type == DType::kInt32) {
    expect_shape(site, 1, {kBatch}, "the label");
  } else {
    const std::int64_t weights = op.sample_weight ? 1 : 0;
    expect_shape(site, 1, {kBatch, logits.shape[1] + weights}, "the label");
  }
  return {{{kBatch}, DType::kInt32}};
}

// A count of classes has no slope.
Gradients differentiate(const ClassRank&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
