#pragma once

#include <string>
#include <vector>

#include "graph/rules.h"

namespace trainer::graph {

// uint8 or float32 image -> float32 image: (x * scale - mean[c]) / std[c]. mean and std have one
// entry per channel. With reverse_channels, channel c reads channel channels - 1 - c of the image.
struct Preprocess {
  float scale = 1;
  std::vector<float> mean, std;
  bool reverse_channels = false;

  static constexpr const char* kName = "preprocess";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
