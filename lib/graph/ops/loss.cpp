#include "graph/rules.h"

namespace trainer::graph::rules {

Outputs infer(const Loss& op, const Site& site) {
  expect_inputs(site, 2);
  const Typed& logits = rows(site, 0, "end the model with flatten and a dense layer");
  const Typed& labels = site.inputs[1];
  const std::int64_t n = logits.shape[1];
  if (labels.type == DType::kInt32) {
    expect_shape(site, 1, {kBatch}, "the label");
    if (op.kind == LossKind::kBinaryCrossEntropy && n != 1) {
      fail(site, "binary_cross_entropy of class indices takes one logit a sample, but the model ",
           "gives ", n, "; end it with dense: {units: 1}, or use softmax_cross_entropy");
    }
  } else if (labels.type == DType::kFloat32) {
    expect_shape(site, 1, {kBatch, n}, "the label");
  } else {
    fail(site, "labels are ", to_string(labels.type),
         ", expected int32 class indices or float32 targets");
  }
  Outputs outputs{{{kBatch}, DType::kFloat32}};
  if (op.gradient) outputs.push_back(logits);
  return outputs;
}

// The loss computes the gradient of its logits itself, as its second output: there is no node.
Gradients differentiate(const Loss& op, GradientSite& site) {
  if (!site.wants(0)) return {kNoValue, kNoValue};
  if (!op.gradient) {
    Loss with_gradient = op;
    with_gradient.gradient = true;
    site.extend(with_gradient);
  }
  return {site.y(1), kNoValue};
}

Outputs infer(const L2Penalty&, const Site& site) {
  expect_inputs(site, 1);
  return {{{1}, DType::kFloat32}};
}

// Update adds the penalty's gradient, 2 * l2 * w, where it reads w anyway.
Gradients differentiate(const L2Penalty&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
