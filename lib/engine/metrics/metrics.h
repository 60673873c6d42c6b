// Computes the metrics of a split exactly over every sample.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/metrics/confusion.h"
#include "engine/metrics/multi_label.h"
#include "engine/metrics/roc_auc.h"
#include "graph/ops/loss.h"

namespace trainer::engine {

struct Interval {
  double low = 0, high = 0;
};
// The 97.5 % quantile of the normal distribution, half the width of a 95 % interval in standard
// errors.
inline constexpr double kNormalQuantile = 1.959963984540054;
// Returns the 95 % Wilson score interval of `correct` out of `count`.
Interval wilson(std::int64_t correct, std::int64_t count);

// Returns the predicted class of one sample: the position of the largest output, the first of equal
// ones as in NumPy's argmax. A single output stands for two classes: the second is predicted if the
// output is > 0, or with mean squared error, whose labels are 0 and 1, if it is > 0.5.
std::int32_t predicted_class(std::span<const float> logits, LossKind loss);

struct Metrics {
  std::int64_t count = 0;
  double loss = 0;  // mean over the samples of loss times weight, if they have weights
  // The rest needs samples with classes. Without them accuracy is NaN and classes is 0.
  std::int64_t correct = 0;
  double accuracy = 0;
  Interval accuracy_interval;
  std::int64_t top_k = 0;  // 0 when not reported
  double top_k_accuracy = 0;
  double auc = std::numeric_limits<double>::quiet_NaN();  // see RocAuc; NaN where it is not known
  Confusion confusion;
  std::int64_t classes = 0;
  MultiLabelMetrics multi_label;  // set if samples have several labels, and so no classes

  std::vector<ClassScores> per_class() const { return class_scores(confusion.class_counts()); }
  ClassMeans class_means() const { return engine::class_means(confusion.class_counts()); }
};

// Returns the metrics of a split that are numbers, under their names in configs and files: loss,
// accuracy, top_k_accuracy, f1_macro, f1_weighted, balanced_accuracy, auc; of several labels loss
// and those of MultiLabelMetrics::named().
std::vector<std::pair<std::string_view, double>> named_metrics(const Metrics& metrics);

// The number of scores that are kept for an AUC that the config does not name: 80 MB.
inline constexpr std::int64_t kMaxScores = 20'000'000;

// Sums the metrics of batches.
class MetricsAccumulator {
 public:
  // `outputs` is the number of logits per sample; with a single one there are 2 classes. Without
  // `has_classes`, samples have no class and labels are ignored.
  MetricsAccumulator(LossKind loss, std::int64_t outputs, std::int64_t top_k,
                     bool has_classes = true, std::int64_t max_scores = kMaxScores);
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
