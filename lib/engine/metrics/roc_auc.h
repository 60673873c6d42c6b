// Computes the area under the ROC curve exactly: the chance that a sample of a class has a larger
// score for it than a sample of another class, where equal scores count half. The score is the
// output, or with softmax the logarithm of the odds, as of the curves (one_against_rest()).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ops/loss.h"

namespace trainer::engine {

// Collects the outputs of all samples.
class RocAuc {
 public:
  // `outputs` is the number of logits per sample; a single one stands for two classes. With more
  // than `max_scores` scores, all are dropped and the area is NaN.
  RocAuc(LossKind loss, std::int64_t outputs, std::int64_t max_scores);
  void add(std::span<const float> logits, std::int32_t label);
  // Returns the area of the second of two classes. For more classes, returns the mean of the areas
  // of each class against the rest (scikit-learn: multi_class="ovr", average="macro"), over the
  // classes that have some but not all samples. NaN if there is no such class.
  double area() const;

 private:
  LossKind loss_;
  std::int64_t outputs_, max_scores_;
  bool given_up_ = false;
  std::vector<float> logits_;  // [samples, outputs]
  std::vector<std::int32_t> labels_;
};

}  // namespace trainer::engine
