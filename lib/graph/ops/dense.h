#pragma once

#include <string>

#include "graph/ops/activation.h"

namespace trainer::graph {

// x [batch, ..., in], kernel [in, units], [bias [units]] -> y [batch, ..., units]
struct Dense {
  bool bias = false;
  Activation activation;

  static constexpr const char* kName = "dense";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes& shapes) const;
  int alias(int) const { return -1; }
};

// dy, kernel -> dx [batch, ..., inputs]
struct DenseBackwardData {
  std::int64_t inputs = 0;

  static constexpr const char* kName = "dense_backward_data";
  std::string text() const { return ""; }
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes& shapes) const;
  int alias(int) const { return -1; }
};

// x, dy -> dkernel, [dbias]
struct DenseBackwardWeights {
  bool bias = false;

  static constexpr const char* kName = "dense_backward_weights";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes& shapes) const;
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
