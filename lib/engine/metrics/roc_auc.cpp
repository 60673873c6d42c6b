#include "engine/metrics/roc_auc.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/metrics/binary_scores.h"

namespace trainer::engine {

RocAuc::RocAuc(LossKind loss, std::int64_t outputs, std::int64_t max_scores)
    : loss_(loss), outputs_(outputs), max_scores_(max_scores), given_up_(max_scores <= 0) {}

void RocAuc::add(std::span<const float> logits, std::int32_t label) {
  if (given_up_) return;
  if (static_cast<std::int64_t>(logits_.size() + logits.size()) > max_scores_) {
    given_up_ = true;
    logits_ = {};
    labels_ = {};
    return;
  }
  labels_.push_back(label);
  logits_.insert(logits_.end(), logits.begin(), logits.end());
}

double RocAuc::area() const {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::size_t width = outputs_;
  const bool has_odds = loss_ == LossKind::kSoftmaxCrossEntropy && outputs_ > 1;
  // A NaN cannot be sorted, and infinite logits have no odds.
  const auto has_no_order = [&](float x) { return has_odds ? !std::isfinite(x) : std::isnan(x); };
  if (given_up_ || std::ranges::any_of(logits_, has_no_order)) return none;
  std::vector<LogOdds> odds;
  for (std::size_t i = 0; has_odds && i < labels_.size(); ++i) {
    odds.emplace_back(std::span(logits_).subspan(i * width, width));
  }
  BinaryScores scores{std::vector<double>(labels_.size()), std::vector<bool>(labels_.size())};
  const auto find_area = [&](std::int64_t column, std::int32_t label) {
    const std::size_t c = column;
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      scores.scores[i] = has_odds ? odds[i](c) : static_cast<double>(logits_[i * width + c]);
      scores.is_positive[i] = labels_[i] == label;
    }
    return area_under_roc(scores);
  };
  if (outputs_ <= 2) return find_area(outputs_ - 1, 1);
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t c = 0; c < outputs_; ++c) {
    const double area = find_area(c, static_cast<std::int32_t>(c));
    if (std::isnan(area)) continue;
    sum += area;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : none;
}

}  // namespace trainer::engine
