// Metrics of a split, summed exactly over every sample.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/confusion.h"
#include "engine/roc_auc.h"
#include "graph/ops/loss.h"

namespace trainer::engine {

struct Interval {
  double low = 0, high = 0;
};
// Wilson score interval of `correct` out of `count`, 95 %.
Interval wilson(std::int64_t correct, std::int64_t count);

// The predicted class of one sample: the position of the largest output, the first of equal ones as
// in NumPy's argmax. A single output stands for two classes: the second when it is > 0 (with mean
// squared error, whose labels are 0 and 1, when it is > 0.5).
std::int32_t predicted_class(std::span<const float> logits, LossKind loss);

struct Metrics {
  std::int64_t count = 0;
  double loss = 0;  // mean over the samples, of loss times weight where they have weights
  // The rest needs samples with classes. Without them accuracy is NaN and classes is 0.
  std::int64_t correct = 0;
  double accuracy = 0;
  Interval accuracy_interval;
  std::int64_t top_k = 0;  // 0 when not reported
  double top_k_accuracy = 0;
  double auc = std::numeric_limits<double>::quiet_NaN();  // see RocAuc; NaN where it is not known
  Confusion confusion;
  std::int64_t classes = 0;

  std::vector<ClassScores> per_class() const { return class_scores(confusion.class_counts()); }
  // scikit-learn's f1_score(average="macro" and "weighted") and balanced_accuracy_score: means over
  // the classes, of F1 over those that are true or predicted for any sample, by support in
  // f1_weighted, and of the recall over those that have samples. NaN without classes.
  struct Means {
    double f1_macro = 0, f1_weighted = 0, balanced_accuracy = 0;
  };
  Means class_means() const;
};

// The metrics of a split that have a number, by the names that configs and files know them by:
// loss, accuracy, top_k_accuracy, f1_macro, f1_weighted, balanced_accuracy, auc.
std::vector<std::pair<std::string_view, double>> named_metrics(const Metrics& metrics);

// Scores that are kept for the AUC when nothing asks for it: 80 MB.
inline constexpr std::int64_t kMostScores = 20'000'000;

// Sums the metrics of batches.
class MetricsAccumulator {
 public:
  // `outputs`: logits a sample; for a single one, classes is 2. `has_classes`: whether samples have
  // a class; otherwise labels are ignored.
  MetricsAccumulator(LossKind loss, std::int64_t outputs, std::int64_t top_k,
                     bool has_classes = true, std::int64_t most_scores = kMostScores);
  void add(std::span<const float> logits, std::span<const float> losses,
           std::span<const std::int32_t> labels);
  Metrics result() const;

 private:
  LossKind loss_;
  std::int64_t outputs_, top_k_, classes_;
  Metrics sums_;
  std::int64_t top_k_correct_ = 0;
  double loss_sum_ = 0;
  RocAuc auc_;
};

}  // namespace trainer::engine
