// The area under the ROC curve, exactly: the chance that a sample of a class has a larger score for
// it than a sample of another class, equal scores counting half.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ops/loss.h"

namespace trainer::engine {

// Collects the scores of all samples.
class RocAuc {
 public:
  // `outputs`: logits a sample; a single one stands for two classes. `most_scores`: beyond so many
  // numbers they are given up, and the area is not known.
  RocAuc(LossKind loss, std::int64_t outputs, std::int64_t most_scores);
  void add(std::span<const float> logits, std::int32_t label);
  // Of two classes the area of the second; otherwise the mean over the classes, each against the
  // rest (scikit-learn: multi_class="ovr", average="macro"), of those that have samples and do not
  // have all of them. Not a number where there is none.
  double area() const;

 private:
  double area_of(std::int64_t column, std::int32_t label) const;

  LossKind loss_;
  std::int64_t outputs_, most_scores_;
  bool given_up_ = false;
  std::vector<float> scores_;  // [samples, outputs]
  std::vector<std::int32_t> labels_;
};

}  // namespace trainer::engine
