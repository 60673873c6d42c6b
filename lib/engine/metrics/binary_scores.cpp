#include "engine/metrics/binary_scores.h"

#include <algorithm>
#include <cmath>
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

std::vector<ScoreGroup> group_by_score(const BinaryScores& scores) {
  std::vector<std::size_t> order(scores.scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(
      order, [&](std::size_t a, std::size_t b) { return scores.scores[a] > scores.scores[b]; });
  std::vector<ScoreGroup> groups;
  for (const std::size_t i : order) {
    if (groups.empty() || groups.back().score != scores.scores[i]) {
      groups.push_back({scores.scores[i], 0, 0});
    }
    ++(scores.is_positive[i] ? groups.back().positives : groups.back().negatives);
  }
  return groups;
}

}  // namespace trainer::engine
