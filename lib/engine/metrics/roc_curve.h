// ROC and precision-recall curves of one class against the rest, with their areas.
#pragma once

#include <vector>

#include "engine/metrics/binary_scores.h"
#include "engine/metrics/metrics.h"

namespace trainer::engine {

// The rates when samples with at least this score are called positive.
struct RocPoint {
  double threshold = 0;
  double false_positive_rate = 0, true_positive_rate = 0;
};
// Returns a point for each distinct score, from the largest to the smallest, after the point (0, 0)
// with an infinite threshold. scikit-learn: roc_curve(drop_intermediate=False). There must be
// positive and negative samples.
std::vector<RocPoint> roc_curve(const BinaryScores& scores);

struct RocArea {
  double area = 0;
  // The interval of DeLong et al. (1988), area +- 1.96 standard errors, cut off at 0 and 1. NaN
  // with fewer than two positive or two negative samples.
  Interval interval;
};
// Returns the area under the ROC curve, where equal scores count half. There must be positive and
// negative samples.
RocArea roc_area(const BinaryScores& scores);

struct PrecisionRecallPoint {
  double threshold = 0;
  double precision = 0, recall = 0;
};
// Returns a point for each distinct score, from the largest to the smallest. scikit-learn's
// precision_recall_curve() has these in reverse order, and the point (precision 1, recall 0) at the
// end. There must be positive samples.
std::vector<PrecisionRecallPoint> precision_recall_curve(const BinaryScores& scores);

// Returns the sum over the points of the precision times the growth of the recall, scikit-learn's
// average_precision_score(). There must be positive samples.
double average_precision(const BinaryScores& scores);

}  // namespace trainer::engine
