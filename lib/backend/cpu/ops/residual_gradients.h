// Gradients at the end of residual blocks:
//   a + b -> dy,   dy * activation'(w) -> d,   x, d -> backward form of a norm
// whose dy is not written. One pass makes d of a and b, and takes the sums that the norm needs of
// it; finite values have the bits that separate passes give. There may be no sum, or no norm.
#pragma once

#include <map>
#include <set>

#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

class ResidualGradients {
 public:
  ResidualGradients(const graph::Graph& graph, const Machine& machine);

  // Whether an addition does not write its sum dy.
  bool skips_sum(graph::ValueId dy) const { return skipped_sums_.contains(dy); }

  struct Gradient {
    graph::ValueId a;
    graph::ValueId b;         // kNoValue: a is dy
    bool overwrites_a;        // d takes the memory of a, which no other node reads
    const graph::Node* norm;  // null: none
  };
  // By d.
  std::map<graph::ValueId, Gradient> gradients;
  // What the pass leaves to the norm: simd::GradientSums, by the norm's dx.
  std::map<graph::ValueId, Buffer> sums;

 private:
  std::set<graph::ValueId> skipped_sums_;
};

// Lowers the gradient of an activation; false when it is none of these.
bool lower_residual_gradient(const graph::ActivateBackward& op, Lowering& l);

}  // namespace trainer::backend::cpu
