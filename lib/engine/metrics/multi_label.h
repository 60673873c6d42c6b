// Computes the metrics of samples with several labels exactly over every sample.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer::engine {

// The results of one label over the samples for which it is known.
struct LabelResult {
  std::int64_t positives = 0, negatives = 0;             // samples with and without the label
  std::int64_t true_positives = 0, false_positives = 0;  // samples that are predicted to have it
  // The area under the ROC curve and the average precision, as scikit-learn computes them, with
  // equal scores at one threshold. NaN without positives, the area also without negatives, and both
  // if a score is NaN or there are too many scores.
  double auc = std::numeric_limits<double>::quiet_NaN();
  double average_precision = std::numeric_limits<double>::quiet_NaN();

  std::int64_t count() const { return positives + negatives; }
  std::int64_t predicted() const { return true_positives + false_positives; }
  // 0 if the denominator is 0, like scikit-learn's zero_division=0.
  double precision() const;
  double recall() const;
  double f1() const;
};

// Labels that are unknown are left out of every number.
struct MultiLabelMetrics {
  std::vector<LabelResult> labels;  // the order is that of the labels; empty for other samples
  std::int64_t samples = 0;         // samples with a known label
  std::int64_t exact = 0;           // samples whose known labels are all predicted right

  bool empty() const { return labels.empty(); }
  double subset_accuracy() const;  // scikit-learn's accuracy_score of known labels
  double hamming_loss() const;     // the share of known labels that are predicted wrong
  double f1_macro() const;         // the mean over all labels
  double f1_micro() const;
  // The means over the labels for which they are defined; NaN if there are none.
  double auc() const;
  double average_precision() const;
  // Returns these numbers under their names in configs and files, without those that are NaN.
  std::vector<std::pair<std::string_view, double>> named() const;
};

// Sums the metrics of batches.
class MultiLabelAccumulator {
 public:
  // `labels` is the number of labels. A label is predicted if its logit is above its number in
  // `thresholds`, or without these above 0, a probability of 0.5. With more than `max_scores`
  // scores all are dropped, and areas are NaN.
  MultiLabelAccumulator(std::int64_t labels, std::int64_t max_scores,
                        std::vector<double> thresholds = {});
  // Both are [samples, labels]; a target is 1, 0 or NaN (unknown).
  void add(std::span<const float> logits, std::span<const float> targets);
  MultiLabelMetrics result() const;

  // The logits and targets of all samples so far, [samples, labels]; empty if they were dropped.
  std::span<const float> logits() const { return logits_; }
  std::span<const float> targets() const { return targets_; }

 private:
  std::size_t labels_;
  std::int64_t max_scores_;
  std::vector<double> thresholds_;
  bool has_dropped_scores_ = false;
  MultiLabelMetrics sums_;
  std::vector<float> logits_, targets_;
};

}  // namespace trainer::engine
