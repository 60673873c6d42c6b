#pragma once

#include <string>

#include "graph/ops/activation.h"
#include "graph/window.h"

namespace trainer::graph {

// x -> y, [index]. A maximum with keep_index also gives `index` (uint8), the position of the winner
// in the window, row by row. Padding never wins a maximum, and the first NaN of a window does, as
// in PyTorch; oneDNN and TensorFlow drop it. An average is that of the pixels inside the image.
// `window.pad_after` of a maximum may be negative: so many of the last pixels are not read.
struct Pool {
  enum class Kind { kMax, kAverage };
  Kind kind = Kind::kMax;
  Window window;
  bool keep_index = false;

  static constexpr const char* kName = "pool";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// max: dy, index, [y] -> dx; average: dy, [y] -> dx. `input` is the shape of x. With an activation,
// which preceded the pooling, y is an input and dy is first multiplied by the activation's
// derivative at y, so that dx is the gradient before the activation.
struct PoolBackward {
  Pool::Kind kind = Pool::Kind::kMax;
  Window window;
  Shape input;
  Activation activation;

  static constexpr const char* kName = "pool_backward";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// x [batch, h, w, c] -> y [batch, c]
struct GlobalPool {
  Pool::Kind kind = Pool::Kind::kAverage;

  static constexpr const char* kName = "global_pool";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// average: dy -> dx; max: dy, x, y -> dx. `input` is the shape of x. The first of equal maxima gets
// the gradient.
struct GlobalPoolBackward {
  Pool::Kind kind = Pool::Kind::kAverage;
  Shape input;

  static constexpr const char* kName = "global_pool_backward";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
