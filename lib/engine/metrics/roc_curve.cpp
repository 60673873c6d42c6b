#include "engine/metrics/roc_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numbers/statistics.h"

namespace trainer::engine {
namespace {

// Sums the deviations of placements, which each occur `count` times, from their mean.
class PlacementVariance {
 public:
  explicit PlacementVariance(double mean) : mean_(mean) {}
  void add(double placement, std::int64_t count) {
    sum_ += static_cast<double>(count) * (placement - mean_) * (placement - mean_);
  }
  // Returns the variance of the mean of `count` placements.
  double of_mean(double count) const { return sum_ / (count - 1) / count; }

 private:
  double mean_, sum_ = 0;
};

}  // namespace

std::vector<RocPoint> roc_curve(const BinaryScores& scores) {
  const std::int64_t positives = scores.positives(), negatives = scores.negatives();
  std::vector<RocPoint> points{{std::numeric_limits<double>::infinity(), 0, 0}};
  std::int64_t true_positives = 0, false_positives = 0;
  for (const ScoreGroup& group : group_by_score(scores)) {
    true_positives += group.positives;
    false_positives += group.negatives;
    points.push_back(
        {group.score, share(false_positives, negatives), share(true_positives, positives)});
  }
  return points;
}

// DeLong's method. The placement of a positive sample is the share of the negative ones with a
// smaller score, that of a negative sample the share of the positive ones with a larger score;
// equal ones count half. The area is the mean of either, and the variance of the area is the sum of
// the variances of both means.
RocArea roc_area(const BinaryScores& scores) {
  const auto positives = static_cast<double>(scores.positives());
  const auto negatives = static_cast<double>(scores.negatives());
  RocArea result;
  result.area = area_under_roc(scores);
  if (positives < 2 || negatives < 2) {
    result.interval.low = result.interval.high = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  PlacementVariance positive_variance(result.area), negative_variance(result.area);
  double above_positives = 0, above_negatives = 0;
  each_score_group(scores, [&](const ScoreGroup& group) {
    const auto own_positives = static_cast<double>(group.positives);
    const auto own_negatives = static_cast<double>(group.negatives);
    positive_variance.add((negatives - above_negatives - own_negatives / 2) / negatives,
                          group.positives);
    negative_variance.add((above_positives + own_positives / 2) / positives, group.negatives);
    above_positives += own_positives;
    above_negatives += own_negatives;
  });
  const double half = kNormalQuantile * std::sqrt(positive_variance.of_mean(positives) +
                                                  negative_variance.of_mean(negatives));
  result.interval = {std::max(0.0, result.area - half), std::min(1.0, result.area + half)};
  return result;
}

std::vector<PrecisionRecallPoint> precision_recall_curve(const BinaryScores& scores) {
  const std::int64_t positives = scores.positives();
  std::vector<PrecisionRecallPoint> points;
  std::int64_t true_positives = 0, called_positive = 0;
  for (const ScoreGroup& group : group_by_score(scores)) {
    true_positives += group.positives;
    called_positive += group.positives + group.negatives;
    points.push_back(
        {group.score, share(true_positives, called_positive), share(true_positives, positives)});
  }
  return points;
}

double average_precision(const BinaryScores& scores) {
  double sum = 0, recall = 0;
  for (const PrecisionRecallPoint& point : precision_recall_curve(scores)) {
    sum += point.precision * (point.recall - recall);
    recall = point.recall;
  }
  return sum;
}

}  // namespace trainer::engine
