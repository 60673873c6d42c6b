#include "engine/metrics/multi_label.h"

#include <algorithm>
#include <cmath>

#include "base/numbers/statistics.h"
#include "engine/metrics/binary_scores.h"

namespace trainer::engine {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// Computes the areas of a label from the scores of the samples for which it is known.
void score_label(const BinaryScores& scores, LabelResult& result) {
  const auto is_nan = [](double score) { return std::isnan(score); };
  if (result.positives == 0 || std::ranges::any_of(scores.scores, is_nan)) return;
  result.auc = area_under_roc(scores);
  std::int64_t above = 0, true_above = 0;
  double sum = 0;
  each_score_group(scores, [&](const ScoreGroup& group) {
    above += group.positives + group.negatives;
    true_above += group.positives;
    sum += static_cast<double>(group.positives) * share(true_above, above);
  });
  result.average_precision = sum / static_cast<double>(result.positives);
}

// Returns the mean of value(label) over the labels for which it is not NaN; NaN if there are none.
template <class Value>
double mean_of_defined(const std::vector<LabelResult>& labels, const Value& value) {
  double sum = 0;
  std::int64_t count = 0;
  for (const LabelResult& label : labels) {
    if (std::isnan(value(label))) continue;
    sum += value(label);
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : kUndefined;
}

}  // namespace

double LabelResult::precision() const { return share(true_positives, predicted()); }
double LabelResult::recall() const { return share(true_positives, positives); }
double LabelResult::f1() const { return share(2 * true_positives, positives + predicted()); }

double MultiLabelMetrics::subset_accuracy() const {
  return samples > 0 ? share(exact, samples) : kUndefined;
}

double MultiLabelMetrics::hamming_loss() const {
  std::int64_t wrong = 0, count = 0;
  for (const LabelResult& label : labels) {
    wrong += label.false_positives + label.positives - label.true_positives;
    count += label.count();
  }
  return count > 0 ? share(wrong, count) : kUndefined;
}

double MultiLabelMetrics::f1_macro() const {
  return mean_of_defined(labels, [](const LabelResult& label) { return label.f1(); });
}

double MultiLabelMetrics::f1_micro() const {
  LabelResult all;
  for (const LabelResult& label : labels) {
    all.positives += label.positives;
    all.true_positives += label.true_positives;
    all.false_positives += label.false_positives;
  }
  return all.f1();
}

double MultiLabelMetrics::auc() const {
  return mean_of_defined(labels, [](const LabelResult& label) { return label.auc; });
}

double MultiLabelMetrics::average_precision() const {
  return mean_of_defined(labels, [](const LabelResult& label) { return label.average_precision; });
}

std::vector<std::pair<std::string_view, double>> MultiLabelMetrics::named() const {
  std::vector<std::pair<std::string_view, double>> named;
  for (const auto& [name, value] : std::initializer_list<std::pair<std::string_view, double>>{
           {"f1_macro", f1_macro()},
           {"f1_micro", f1_micro()},
           {"subset_accuracy", subset_accuracy()},
           {"hamming_loss", hamming_loss()},
           {"auc", auc()},
           {"average_precision", average_precision()}}) {
    if (!std::isnan(value)) named.emplace_back(name, value);
  }
  return named;
}

MultiLabelAccumulator::MultiLabelAccumulator(std::int64_t labels, std::int64_t max_scores,
                                             std::vector<double> thresholds)
    : labels_(labels), max_scores_(max_scores), thresholds_(std::move(thresholds)) {
  sums_.labels.resize(labels_);
  thresholds_.resize(labels_, 0.0);
}

void MultiLabelAccumulator::add(std::span<const float> logits, std::span<const float> targets) {
  for (std::size_t first = 0; first < targets.size(); first += labels_) {
    bool is_known = false, is_exact = true;
    for (std::size_t i = 0; i < labels_; ++i) {
      const float target = targets[first + i];
      if (std::isnan(target)) continue;
      const bool positive = target > 0.5f;
      const bool predicted = static_cast<double>(logits[first + i]) > thresholds_[i];
      LabelResult& label = sums_.labels[i];
      ++(positive ? label.positives : label.negatives);
      if (predicted) ++(positive ? label.true_positives : label.false_positives);
      is_known = true;
      is_exact = is_exact && predicted == positive;
    }
    sums_.samples += is_known ? 1 : 0;
    sums_.exact += is_known && is_exact ? 1 : 0;
  }
  if (has_dropped_scores_) return;
  logits_.insert(logits_.end(), logits.begin(), logits.end());
  targets_.insert(targets_.end(), targets.begin(), targets.end());
  if (std::ssize(logits_) <= max_scores_) return;
  has_dropped_scores_ = true;
  logits_ = {};
  targets_ = {};
}

MultiLabelMetrics MultiLabelAccumulator::result() const {
  MultiLabelMetrics result = sums_;
  for (std::size_t i = 0; !has_dropped_scores_ && i < labels_; ++i) {
    BinaryScores scores;
    for (std::size_t place = i; place < targets_.size(); place += labels_) {
      if (std::isnan(targets_[place])) continue;
      scores.scores.push_back(static_cast<double>(logits_[place]));
      scores.is_positive.push_back(targets_[place] > 0.5f);
    }
    score_label(scores, result.labels[i]);
  }
  return result;
}

}  // namespace trainer::engine
