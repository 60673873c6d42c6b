#pragma once

#include <string>

#include "base/choices.h"
#include "graph/rules.h"

namespace trainer::graph {

// The attributes of the op and of its gradient.
struct UpSampleAttributes {
  using Kind = UpSampling;
  Kind kind = Kind::kNearest;
  std::int64_t height = 2, width = 2;

  std::string text() const;
};

// x [batch, h, w, c] -> y [batch, h * height, w * width, c], as Keras's UpSampling2D. Bilinear uses
// half-pixel centres; a pixel outside the image has the value of the nearest pixel inside.
struct UpSample : UpSampleAttributes {
  static constexpr const char* kName = "up_sample";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

// dy -> dx
struct UpSampleBackward : UpSampleAttributes {
  static constexpr const char* kName = "up_sample_backward";
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
