#include "engine/metrics/ensemble.h"

#include <algorithm>
#include <cmath>

namespace trainer::engine {
namespace {

// Returns log(sum of exp(x)) of logits.
double compute_log_sum(std::span<const float> logits) {
  const auto largest = static_cast<double>(*std::ranges::max_element(logits));
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

// Returns log(sum of exp(x)) of logarithms. Unlike compute_log_sum(), it keeps small terms beside
// the largest, which matter to the difference of two such sums.
double add_logarithms(std::span<const double> logarithms) {
  const auto largest = std::ranges::max_element(logarithms);
  if (std::isinf(*largest)) return *largest;
  double others = 0;
  for (auto one = logarithms.begin(); one != logarithms.end(); ++one) {
    if (one != largest) others += std::exp(*one - *largest);
  }
  return *largest + std::log1p(others);
}

// Returns log(sigmoid(x)).
double compute_log_sigmoid(double x) {
  return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

void average_probabilities(LossKind loss, const std::vector<std::span<const float>>& logits,
                           std::span<float> mean) {
  const auto count = static_cast<double>(logits.size());
  std::vector<double> log_sums;
  if (loss == LossKind::kSoftmaxCrossEntropy) {
    for (const std::span<const float> one : logits) log_sums.push_back(compute_log_sum(one));
  }
  // log p and, for binary_cross_entropy, log(1 - p) of each prediction.
  std::vector<double> log_p(logits.size()), log_rest(logits.size());
  for (std::size_t output = 0; output < mean.size(); ++output) {
    double sum = -0.0;  // so that a sum of -0.0 keeps its sign
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const auto x = static_cast<double>(logits[i][output]);
      sum += x;
      if (loss == LossKind::kSoftmaxCrossEntropy) log_p[i] = x - log_sums[i];
      if (loss == LossKind::kBinaryCrossEntropy) {
        log_p[i] = compute_log_sigmoid(x);
        log_rest[i] = compute_log_sigmoid(-x);
      }
    }
    double value = sum / count;
    if (loss == LossKind::kSoftmaxCrossEntropy) value = add_logarithms(log_p) - std::log(count);
    if (loss == LossKind::kBinaryCrossEntropy) {
      value = add_logarithms(log_p) - add_logarithms(log_rest);
    }
    mean[output] = static_cast<float>(value);
  }
}

double sample_loss(LossKind loss, std::span<const float> logits, std::int32_t label) {
  const std::size_t target = label;
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
