// Batch normalization over all dimensions but the last, the channels. gamma, beta, mean, variance
// and inverse_std are [channels]; inverse_std is 1 / sqrt(variance + epsilon). Where an op has an
// activation, the op applies the activation to its result.
#pragma once

#include <string>

#include "graph/ops/activation.h"

namespace trainer::graph {

// The attributes of the ops that normalise, and of their gradients.
struct NormAttributes {
  float epsilon = 1e-3f;
  Activation activation;

  std::string text() const;
};

// Training: x, gamma, beta -> y, mean, inverse_std. The mean and the biased variance are those of
// the batch.
struct BatchNorm : NormAttributes {
  static constexpr const char* kName = "batch_norm";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// x, dy, gamma, mean, inverse_std, [y] -> dx, dgamma, dbeta. y is an input only with an activation.
struct BatchNormBackward : NormAttributes {
  static constexpr const char* kName = "batch_norm_backward";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// moving_mean, moving_variance, mean, inverse_std -> moving_mean, moving_variance, in place:
// moving * momentum + batch * (1 - momentum). The variance of the batch is the biased one, as in
// Keras.
struct UpdateStatistics {
  float momentum = 0.99f;
  float epsilon = 1e-3f;

  static constexpr const char* kName = "update_statistics";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int output) const { return output; }
};

// x, gamma, beta, mean, variance -> y
struct BatchNormInference : NormAttributes {
  static constexpr const char* kName = "batch_norm_inference";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// x, dy, gamma, mean, variance, [y] -> dx, dgamma, dbeta. y is an input only with an activation.
struct BatchNormInferenceBackward : NormAttributes {
  static constexpr const char* kName = "batch_norm_inference_backward";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// kernel, [bias], gamma, beta, mean, variance -> kernel, bias of the one convolution that equals
// the convolution followed by BatchNormInference.
struct FoldBatchNorm {
  float epsilon = 1e-3f;
  bool bias = false;

  static constexpr const char* kName = "fold_batch_norm";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
