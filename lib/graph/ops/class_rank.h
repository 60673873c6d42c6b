#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// logits [batch, n], labels -> rank, int32 [batch]: how many classes precede the label's class when
// classes are sorted by descending logit, the lower class first among equal ones. 0 is a correct
// prediction, and a rank < k is a correct top-k prediction. Labels are int32 [batch], or float32
// [batch, n] whose largest number marks the class. A single logit stands for two classes: the
// second one is predicted if the logit is > threshold. A rank has no gradient.
struct ClassRank {
  float threshold = 0;
  // float32 labels are [batch, n + 1], of which the last number is not a class.
  bool sample_weight = false;

  static constexpr const char* kName = "class_rank";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
