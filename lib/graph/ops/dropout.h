#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// x -> y, and dy -> dx: the same op with the same `layer` draws the same mask. A unit is an
// element, a channel or the whole sample. Units are kept with probability 1 - rate and divided by
// it. The draw is a function of (seed, layer, step, position of the sample in the global batch,
// unit).
struct Dropout {
  enum class Unit { kElement, kChannel, kSample };
  float rate = 0.5f;
  std::uint32_t layer = 0;
  std::uint64_t seed = 0;
  Unit unit = Unit::kElement;

  static constexpr const char* kName = "dropout";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
