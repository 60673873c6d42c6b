#include "graph/ops/loss.h"

#include "graph/contexts.h"

namespace trainer::graph {

std::string Loss::text() const {
  std::string result(spell(kind));
  if (label_smoothing > 0) result += concat(" smoothing ", label_smoothing);
  if (target_threshold >= 0) result += concat(" threshold ", target_threshold);
  if (focal) result += concat(" focal gamma ", focal->gamma, " alpha ", focal->alpha);
  return words({result, flag(!class_weight.empty() || !target_weight.empty(), "weighted"),
                flag(sample_weight, "sample weights"), flag(gradient, "gradient")});
}

Outputs Loss::infer(const ShapeContext& context) const {
  expect_inputs(context, 2);
  const Typed& logits = rows(context, 0, "end the model with flatten and a dense layer");
  const Typed& labels = context.inputs[1];
  const std::int64_t n = logits.shape[1];
  if (labels.type == DType::kInt32) {
    expect_shape(context, 1, {kBatch}, "the label");
  } else if (labels.type == DType::kFloat32) {
    expect_shape(context, 1, {kBatch, sample_weight ? n + 1 : n}, "the label");
  } else {
    fail(context, "labels are ", to_string(labels.type),
         ", expected int32 class indices or float32 targets");
  }
  const std::int64_t classes = n == 1 ? 2 : n;
  if (!class_weight.empty() && std::ssize(class_weight) != classes) {
    fail(context, "has weights for ", class_weight.size(), " classes, but the model gives ", n,
         n == 1 ? " number" : " numbers");
  }
  const bool takes_targets =
      kind == LossKind::kBinaryCrossEntropy && labels.type == DType::kFloat32;
  if (!target_weight.empty() && (!takes_targets || std::ssize(target_weight) != 2 * n)) {
    fail(context, "has ", target_weight.size(), " weights of targets; expected ", 2 * n,
         " with float32 targets of binary_cross_entropy");
  }
  Outputs outputs{{{kBatch}, DType::kFloat32}};
  if (gradient) outputs.push_back(logits);
  return outputs;
}

// No node is emitted: the loss itself computes the gradient of its logits, as its second output.
Gradients Loss::differentiate(GradientContext& context) const {
  if (!gradient) {
    Loss with_gradient = *this;
    with_gradient.gradient = true;
    context.extend(with_gradient);
  }
  return {context.y(1), kNoValue};
}

}  // namespace trainer::graph
