#include "engine/metrics/binary_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace trainer::engine {

// The terms are relative to the largest logit among them: exp() of a logit far below the top one
// would be 0, and all odds beyond it equal.
LogOdds::LogOdds(std::span<const float> logits) : logits_(logits) {
  if (logits_.size() < 2) return;
  top_ = static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
  second_ = top_ == 0 ? 1 : 0;
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    if (i != top_ && logits_[i] > logits_[second_]) second_ = i;
  }
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    if (i == top_) continue;
    above_second_ += std::exp(logit(i) - logit(second_));
    above_top_ += std::exp(logit(i) - logit(top_));
  }
}

double LogOdds::operator()(std::size_t of_class) const {
  if (logits_.size() == 1) return of_class == 1 ? logit(0) : -logit(0);
  if (of_class == top_) return logit(top_) - logit(second_) - std::log(above_second_);
  const double below_top = logit(of_class) - logit(top_);
  return below_top - std::log(above_top_ - std::exp(below_top) + 1);
}

double threshold_between(double lower, double upper) {
  const double middle = lower + (upper - lower) / 2;
  return middle > lower ? middle : upper;
}

std::int64_t BinaryScores::positives() const { return std::ranges::count(is_positive, true); }

std::int64_t BinaryScores::negatives() const { return std::ranges::count(is_positive, false); }

std::vector<BinaryScores> one_against_rest(const LabelledLogits& scores) {
  const std::size_t classes = scores.classes();
  std::vector<BinaryScores> all(classes);
  for (std::size_t i = 0; i < scores.labels.size(); ++i) {
    const LogOdds odds(scores.row(i));
    for (std::size_t c = 0; c < classes; ++c) {
      all[c].scores.push_back(odds(c));
      all[c].is_positive.push_back(scores.labels[i] == static_cast<std::int32_t>(c));
    }
  }
  return all;
}

void each_score_group(const BinaryScores& scores,
                      const std::function<void(const ScoreGroup&)>& use) {
  std::vector<std::size_t> order(scores.scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(
      order, [&](std::size_t a, std::size_t b) { return scores.scores[a] > scores.scores[b]; });
  for (std::size_t i = 0; i < order.size();) {
    ScoreGroup group{scores.scores[order[i]], 0, 0};
    do {
      ++(scores.is_positive[order[i++]] ? group.positives : group.negatives);
    } while (i < order.size() && scores.scores[order[i]] == group.score);
    use(group);
  }
}

std::vector<ScoreGroup> group_by_score(const BinaryScores& scores) {
  std::vector<ScoreGroup> groups;
  each_score_group(scores, [&](const ScoreGroup& group) { groups.push_back(group); });
  return groups;
}

double area_under_roc(const BinaryScores& scores) {
  double sum = 0, positives = 0, negatives = 0;
  each_score_group(scores, [&](const ScoreGroup& group) {
    // The positives above a negative sample, and half of those beside it.
    const auto group_positives = static_cast<double>(group.positives);
    sum += static_cast<double>(group.negatives) * (positives + group_positives / 2);
    positives += group_positives;
    negatives += static_cast<double>(group.negatives);
  });
  const double pairs = positives * negatives;
  return pairs > 0 ? sum / pairs : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace trainer::engine
