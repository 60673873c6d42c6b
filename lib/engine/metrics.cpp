#include "engine/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainer::engine {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

Interval wilson(std::int64_t correct, std::int64_t count) {
  if (count == 0) return {0, 1};
  constexpr double kZ = 1.959963984540054;  // 97.5 % quantile of the normal distribution
  const double n = static_cast<double>(count), p = share(correct, count);
  const double scale = 1 + kZ * kZ / n;
  const double centre = (p + kZ * kZ / (2 * n)) / scale;
  const double half = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n)) / scale;
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

std::int32_t predicted_class(std::span<const float> logits, graph::LossKind loss) {
  if (logits.size() == 1) {
    const float threshold = loss == graph::LossKind::kMeanSquaredError ? 0.5f : 0.0f;
    return logits[0] > threshold ? 1 : 0;
  }
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<Metrics::PerClass> Metrics::per_class() const {
  std::vector<PerClass> rows(static_cast<std::size_t>(classes));
  const auto at = [&](std::int64_t truth, std::int64_t predicted) {
    return confusion[static_cast<std::size_t>(truth * classes + predicted)];
  };
  for (std::int64_t c = 0; c < classes; ++c) {
    PerClass& row = rows[static_cast<std::size_t>(c)];
    std::int64_t predicted = 0;
    for (std::int64_t other = 0; other < classes; ++other) {
      row.support += at(c, other);
      predicted += at(other, c);
    }
    row.precision = share(at(c, c), predicted);
    row.recall = share(at(c, c), row.support);
    const double sum = row.precision + row.recall;
    row.f1 = sum > 0 ? 2 * row.precision * row.recall / sum : 0;
  }
  return rows;
}

MetricsAccumulator::MetricsAccumulator(graph::LossKind loss, std::int64_t outputs,
                                       std::int64_t top_k, bool has_classes)
    : loss_(loss),
      outputs_(outputs),
      top_k_(top_k),
      classes_(!has_classes   ? 0
               : outputs == 1 ? 2
                              : outputs) {
  if (top_k_ >= classes_ || top_k_ < 2) top_k_ = 0;
  sums_.classes = classes_;
  sums_.top_k = top_k_;
  sums_.confusion.resize(static_cast<std::size_t>(classes_ * classes_));
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
    ++sums_.confusion[static_cast<std::size_t>(label * classes_ + predicted)];
    if (top_k_ > 0) {
      // The label's place: how many classes come before it.
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
  return metrics;
}

}  // namespace trainer::engine
