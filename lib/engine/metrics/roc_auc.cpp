#include "engine/metrics/roc_auc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace trainer::engine {
namespace {

// Computes log(p / (1 - p)) for the softmax's p. It has the order of p, but does not become equal
// by rounding where p is close to 1.
void append_log_odds(std::span<const float> logits, std::vector<float>& scores) {
  const auto top = static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
  const auto power = [&](std::size_t i) {
    return std::exp(static_cast<double>(logits[i]) - static_cast<double>(logits[top]));
  };
  double rest = 0;  // the sum without the largest term
  for (std::size_t i = 0; i < logits.size(); ++i) rest += i == top ? 0 : power(i);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double others = i == top ? rest : rest - power(i) + 1;
    const double own = static_cast<double>(logits[i]) - static_cast<double>(logits[top]);
    scores.push_back(static_cast<float>(own - std::log(others)));
  }
}

}  // namespace

RocAuc::RocAuc(LossKind loss, std::int64_t outputs, std::int64_t max_scores)
    : loss_(loss), outputs_(outputs), max_scores_(max_scores), given_up_(max_scores <= 0) {}

void RocAuc::add(std::span<const float> logits, std::int32_t label) {
  if (given_up_) return;
  if (static_cast<std::int64_t>(scores_.size() + logits.size()) > max_scores_) {
    given_up_ = true;
    scores_ = {};
    labels_ = {};
    return;
  }
  labels_.push_back(label);
  if (loss_ == LossKind::kSoftmaxCrossEntropy && outputs_ > 1) {
    append_log_odds(logits, scores_);
  } else {
    scores_.insert(scores_.end(), logits.begin(), logits.end());
  }
}

// Uses the sum of the ranks of the class's samples (Mann-Whitney). Ranks are doubled so that the
// mean rank of equal scores is an integer. NaN unless there are samples of the class and of others.
double RocAuc::class_area(std::int64_t column, std::int32_t label) const {
  const auto score = [&](std::size_t sample) {
    return scores_[sample * static_cast<std::size_t>(outputs_) + static_cast<std::size_t>(column)];
  };
  std::vector<std::size_t> order(labels_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return score(a) < score(b); });
  std::int64_t own = 0, twice_ranks = 0;
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    std::int64_t equals = 0;  // samples of the class with this score
    for (; last < order.size() && score(order[last]) == score(order[first]); ++last) {
      equals += labels_[order[last]] == label ? 1 : 0;
    }
    own += equals;
    twice_ranks += equals * static_cast<std::int64_t>(first + last + 1);
  }
  const std::int64_t others = std::ssize(order) - own;
  if (own == 0 || others == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(twice_ranks - own * (own + 1)) /
         (2 * static_cast<double>(own) * static_cast<double>(others));
}

double RocAuc::area() const {
  const double none = std::numeric_limits<double>::quiet_NaN();
  // A NaN cannot be sorted.
  if (given_up_ || std::ranges::any_of(scores_, [](float s) { return s != s; })) {
    return none;
  }
  if (outputs_ <= 2) return class_area(outputs_ - 1, 1);
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t c = 0; c < outputs_; ++c) {
    const double area = class_area(c, static_cast<std::int32_t>(c));
    if (std::isnan(area)) continue;
    sum += area;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : none;
}

}  // namespace trainer::engine
