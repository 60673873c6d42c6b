#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {
namespace {

std::string loss_text(const Loss& op) {
  std::string result;
  switch (op.kind) {
    case LossKind::kSoftmaxCrossEntropy:
      result = "softmax_cross_entropy";
      break;
    case LossKind::kBinaryCrossEntropy:
      result = "binary_cross_entropy";
      break;
    case LossKind::kMeanSquaredError:
      result = "mean_squared_error";
      break;
  }
  if (op.label_smoothing > 0) result += concat(" smoothing ", op.label_smoothing);
  if (op.focal) result += concat(" focal gamma ", op.focal->gamma, " alpha ", op.focal->alpha);
  return words({result, flag(!op.class_weight.empty(), "weighted"),
                flag(op.sample_weight, "sample weights"), flag(op.gradient, "gradient")});
}

}  // namespace

const char* name(const Loss&) { return "loss"; }
std::string text(const Loss& op) { return loss_text(op); }
std::int64_t flops(const Loss&, const Operands&) { return 0; }
int alias(const Loss&, int) { return -1; }

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
    expect_shape(site, 1, {kBatch, op.sample_weight ? n + 1 : n}, "the label");
  } else {
    fail(site, "labels are ", to_string(labels.type),
         ", expected int32 class indices or float32 targets");
  }
  const std::size_t classes = n == 1 ? 2 : static_cast<std::size_t>(n);
  if (!op.class_weight.empty() && op.class_weight.size() != classes) {
    fail(site, "has weights for ", op.class_weight.size(), " classes, but the model gives ", n,
         n == 1 ? " number" : " numbers");
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

const char* name(const L2Penalty&) { return "l2_penalty"; }
std::string text(const L2Penalty& op) {
  return words({op.factor > 0 || op.l1 <= 0 ? concat("factor ", op.factor) : "",
                op.l1 > 0 ? concat("l1 ", op.l1) : ""});
}
std::int64_t flops(const L2Penalty&, const Operands&) { return 0; }
int alias(const L2Penalty&, int) { return -1; }

Outputs infer(const L2Penalty&, const Site& site) {
  expect_inputs(site, 1);
  return {{{1}, DType::kFloat32}};
}

// Update adds the penalty's gradient, 2 * l2 * w + l1 * sign(w), where it reads w anyway.
Gradients differentiate(const L2Penalty&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
