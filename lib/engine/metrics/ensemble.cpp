#include "engine/metrics/ensemble.h"

#include <algorithm>
#include <cmath>

namespace trainer::engine {
namespace {

// Returns log(sum of exp(x)).
double compute_log_sum(const std::vector<double>& values) {
  const double largest = *std::max_element(values.begin(), values.end());
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (const double value : values) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

double compute_log_sum(std::span<const float> values) {
  return compute_log_sum(std::vector<double>(values.begin(), values.end()));
}

// Returns log(sigmoid(x)).
double compute_log_sigmoid(double x) {
  return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

void average_probabilities(LossKind loss, const std::vector<std::span<const float>>& logits,
                           std::span<float> mean) {
  const auto models = static_cast<double>(logits.size());
  std::vector<double> sums;
  if (loss == LossKind::kSoftmaxCrossEntropy) {
    for (const std::span<const float> one : logits) sums.push_back(compute_log_sum(one));
  }
  std::vector<double> values(logits.size()), others(logits.size());
  for (std::size_t output = 0; output < mean.size(); ++output) {
    double sum = 0;
    for (std::size_t model = 0; model < logits.size(); ++model) {
      const auto x = static_cast<double>(logits[model][output]);
      sum += x;
      if (loss == LossKind::kSoftmaxCrossEntropy) values[model] = x - sums[model];
      if (loss == LossKind::kBinaryCrossEntropy) {
        values[model] = compute_log_sigmoid(x);
        others[model] = compute_log_sigmoid(-x);
      }
    }
    double value = sum / models;
    if (loss == LossKind::kSoftmaxCrossEntropy) value = compute_log_sum(values) - std::log(models);
    if (loss == LossKind::kBinaryCrossEntropy)
      value = compute_log_sum(values) - compute_log_sum(others);
    mean[output] = static_cast<float>(value);
  }
}

double sample_loss(LossKind loss, std::span<const float> logits, std::int32_t label) {
  const auto target = static_cast<std::size_t>(label);
  if (loss == LossKind::kSoftmaxCrossEntropy) {
    return compute_log_sum(logits) - static_cast<double>(logits[target]);
  }
  double sum = 0;  // the mean over the outputs, of which a single one is that of class 1
  for (std::size_t output = 0; output < logits.size(); ++output) {
    const auto x = static_cast<double>(logits[output]);
    const bool is_true = logits.size() == 1 ? label == 1 : output == target;
    if (loss == LossKind::kBinaryCrossEntropy) {
      sum -= compute_log_sigmoid(is_true ? x : -x);
    } else {
      sum += (x - (is_true ? 1 : 0)) * (x - (is_true ? 1 : 0));
    }
  }
  return sum / static_cast<double>(logits.size());
}

}  // namespace trainer::engine
