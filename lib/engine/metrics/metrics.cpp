#include "engine/metrics/metrics.h"

#include <algorithm>
#include <cmath>

#include "base/numbers/statistics.h"

namespace trainer::engine {

Interval wilson(std::int64_t correct, std::int64_t count) {
  if (count == 0) return {0, 1};
  constexpr double kZ = kNormalQuantile;
  const double n = static_cast<double>(count), p = share(correct, count);
  const double scale = 1 + kZ * kZ / n;
  const double centre = (p + kZ * kZ / (2 * n)) / scale;
  const double half = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n)) / scale;
  // At these ends the two terms are equal except for rounding.
  return {correct == 0 ? 0.0 : centre - half, correct == count ? 1.0 : centre + half};
}

std::int32_t predicted_class(std::span<const float> logits, LossKind loss) {
  if (logits.size() == 1) {
    const float threshold = loss == LossKind::kMeanSquaredError ? 0.5f : 0.0f;
    return logits[0] > threshold ? 1 : 0;
  }
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

std::vector<std::pair<std::string_view, double>> named_metrics(const Metrics& metrics) {
  std::vector<std::pair<std::string_view, double>> named{{"loss", metrics.loss}};
  if (!std::isnan(metrics.accuracy)) named.emplace_back("accuracy", metrics.accuracy);
  if (metrics.top_k > 0) named.emplace_back("top_k_accuracy", metrics.top_k_accuracy);
  if (!metrics.multi_label.empty()) {
    for (const auto& metric : metrics.multi_label.named()) named.push_back(metric);
  }
  if (metrics.classes == 0) return named;
  const ClassMeans means = metrics.class_means();
  for (const auto& [name, value] : std::initializer_list<std::pair<std::string_view, double>>{
           {"f1_macro", means.f1_macro},
           {"f1_weighted", means.f1_weighted},
           {"balanced_accuracy", means.balanced_accuracy},
           {"auc", metrics.auc}}) {
    if (!std::isnan(value)) named.emplace_back(name, value);
  }
  return named;
}

MetricsAccumulator::MetricsAccumulator(LossKind loss, std::int64_t outputs, std::int64_t top_k,
                                       bool has_classes, std::int64_t max_scores)
    : loss_(loss),
      outputs_(outputs),
      top_k_(top_k),
      classes_(!has_classes   ? 0
               : outputs == 1 ? 2
                              : outputs),
      auc_(loss, outputs, has_classes ? max_scores : 0) {
  if (top_k_ >= classes_ || top_k_ < 2) top_k_ = 0;
  sums_.classes = classes_;
  sums_.top_k = top_k_;
  sums_.confusion = Confusion(classes_);
}

void MetricsAccumulator::add(std::span<const float> logits, std::span<const float> losses,
                             std::span<const std::int32_t> labels) {
  for (std::size_t s = 0; s < labels.size(); ++s) {
    const float* row = logits.data() + static_cast<std::int64_t>(s) * outputs_;
    const std::int64_t predicted =
        predicted_class({row, static_cast<std::size_t>(outputs_)}, loss_);
    const std::int64_t label = labels[s];
    ++sums_.count;
    loss_sum_ += static_cast<double>(losses[s]);
    if (classes_ == 0) continue;
    sums_.correct += predicted == label ? 1 : 0;
    auc_.add({row, static_cast<std::size_t>(outputs_)}, labels[s]);
    sums_.confusion.add(label, predicted);
    if (top_k_ > 0) {
      // The rank of the label is the number of classes that come before it.
      std::int64_t before = 0;
      for (std::int64_t c = 0; c < outputs_; ++c) {
        before += row[c] > row[label] || (row[c] == row[label] && c < label) ? 1 : 0;
      }
      top_k_correct_ += before < top_k_ ? 1 : 0;
    }
  }
}

Metrics MetricsAccumulator::result() const {
  Metrics metrics = sums_;
  metrics.loss = metrics.count > 0 ? loss_sum_ / static_cast<double>(metrics.count) : 0;
  if (classes_ == 0) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    metrics.accuracy = none;
    metrics.accuracy_interval = {none, none};
    return metrics;
  }
  metrics.accuracy = share(metrics.correct, metrics.count);
  metrics.accuracy_interval = wilson(metrics.correct, metrics.count);
  metrics.top_k_accuracy = share(top_k_correct_, metrics.count);
  metrics.auc = auc_.area();
  return metrics;
}

}  // namespace trainer::engine
