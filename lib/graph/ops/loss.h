#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/choices.h"
#include "graph/rules.h"

namespace trainer::graph {

// Multiplies each term -log p of a cross-entropy, where p is the probability of the term's target,
// by (1 - p)^gamma. alpha: softmax multiplies all terms by alpha; binary multiplies the terms of
// target 1 by alpha and those of target 0 by 1 - alpha, and none if alpha is negative.
struct Focal {
  float gamma = 2;
  float alpha = -1;
};

// logits [batch, n], labels -> loss [batch], [dlogits]. The gradient is that of
// sum(loss) * loss_scale, where loss_scale is the run-time scalar 1 / (true samples of the global
// batch).
// Labels are int32 [batch], the indices of classes, or float32 [batch, n], the targets; an index
// stands for a one-hot target, or if n is 1 for the target 0 or 1. Binary cross-entropy is the mean
// over n. A float32 target of it that is NaN is unknown: its term and its gradient are 0, and the
// mean still divides by n (Keras: a sample weight of 0 for this term). The mean squared error is
// the mean over n.
struct Loss {
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  float label_smoothing = 0;
  bool gradient = false;  // gives dlogits
  std::optional<Focal> focal = {};
  // One factor per class for the loss of its samples; empty: none. The class of float32 targets is
  // that of the largest one, and that of a single target is 1 if the target is > 0.5.
  std::vector<float> class_weight = {};
  // float32 labels are [batch, n + 1], where the last number is a factor for the sample's loss.
  // int32 labels have no such factor.
  bool sample_weight = false;
  // Binary cross-entropy of float32 targets: 2 n factors of its terms, first those of -log(1 - p)
  // of each of the n targets, then those of -log p. Empty: none. Excludes class_weight.
  std::vector<float> target_weight = {};
  // Binary cross-entropy: the number towards which label_smoothing moves targets, 1 / n if they are
  // shares of n classes.
  float smoothing_centre = 0.5f;
  // Binary cross-entropy: smoothed targets above it count as 1, others as 0. Negative: none.
  float target_threshold = -1;

  static constexpr const char* kName = "loss";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
