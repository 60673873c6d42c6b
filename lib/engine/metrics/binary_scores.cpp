#include "engine/metrics/binary_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainer::engine {
namespace {

// Computes the logarithm of the odds of every class of a sample.
class LogOdds {
 public:
  explicit LogOdds(std::span<const float> logits) : logits_(logits) {
    if (logits_.size() == 1) return;
    top_ = static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
    for (std::size_t i = 0; i < logits_.size(); ++i) rest_ += i == top_ ? 0 : power(i);
  }

  double operator()(std::size_t of_class) const {
    if (logits_.size() == 1) {
      const auto logit = static_cast<double>(logits_[0]);
      return of_class == 1 ? logit : -logit;
    }
    const double others = of_class == top_ ? rest_ : rest_ - power(of_class) + 1;
    return below_top(of_class) - std::log(others);
  }

 private:
  double below_top(std::size_t i) const {
    return static_cast<double>(logits_[i]) - static_cast<double>(logits_[top_]);
  }
  double power(std::size_t i) const { return std::exp(below_top(i)); }

  std::span<const float> logits_;
  std::size_t top_ = 0;
  double rest_ = 0;  // the sum of the powers without the largest
};

}  // namespace

std::int64_t BinaryScores::positives() const { return std::ranges::count(is_positive, true); }

std::int64_t BinaryScores::negatives() const { return std::ranges::count(is_positive, false); }

double log_odds(std::span<const float> logits, std::int64_t of_class) {
  return LogOdds(logits)(of_class);
}

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
