#include "engine/metrics/calibration.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace trainer::engine {
namespace {

// The loss -log p of the label of a sample, where p = softmax(logits * scale), and its derivatives
// with respect to the scale, which is 1 / temperature.
struct SampleLoss {
  double value = 0, first = 0, second = 0;
};

SampleLoss compute_loss(std::span<const float> row, std::int32_t label, double scale) {
  const bool single = row.size() == 1;  // stands for the logits 0 and row[0]
  const std::size_t classes = single ? 2 : row.size();
  const auto logit = [&](std::size_t c) {
    return single ? (c == 0 ? 0.0 : static_cast<double>(row[0])) : static_cast<double>(row[c]);
  };
  double largest = logit(0);
  for (std::size_t c = 1; c < classes; ++c) largest = std::max(largest, logit(c));
  double sum = 0, first = 0, second = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    const double below = logit(c) - largest, weight = std::exp(below * scale);
    sum += weight;
    first += weight * below;
    second += weight * below * below;
  }
  const double mean = first / sum;  // the mean of the logits under p
  const double label_logit = logit(label) - largest;
  return {std::log(sum) - label_logit * scale, mean - label_logit,
          std::max(0.0, second / sum - mean * mean)};
}

// Returns the sum over all samples.
SampleLoss sum_losses(const LabelledLogits& scores, double scale) {
  SampleLoss sum;
  for (std::size_t i = 0; i < scores.labels.size(); ++i) {
    const SampleLoss sample = compute_loss(scores.row(i), scores.labels[i], scale);
    sum.value += sample.value;
    sum.first += sample.first;
    sum.second += sample.second;
  }
  return sum;
}

std::size_t reliability_bin(double confidence) {
  constexpr std::size_t kBins = Reliability::kBins;
  const double place = std::ceil(confidence * static_cast<double>(kBins));
  return std::min(kBins - 1, static_cast<std::size_t>(std::max(1.0, place)) - 1);
}

// The contribution of a sample to the calibration error of its bin.
struct CalibrationGap {
  std::size_t bin = 0;
  double gap = 0;  // 1 for a correct prediction or else 0, minus the confidence
};

// Returns the 2.5 and 97.5 % percentiles of the calibration error over bootstrap samples.
Interval bootstrap_calibration_error(const std::vector<CalibrationGap>& gaps) {
  constexpr std::size_t kReplicates = 1000, kMinReplicates = 200, kMaxDraws = 200'000'000;
  const std::size_t samples = gaps.size();
  const std::size_t replicates = std::clamp(kMaxDraws / samples, kMinReplicates, kReplicates);
  std::mt19937_64 random(samples);
  std::vector<double> errors;
  for (std::size_t r = 0; r < replicates; ++r) {
    std::vector<double> sums(Reliability::kBins);
    for (std::size_t i = 0; i < samples; ++i) {
      const CalibrationGap& drawn = gaps[((random() >> 32) * samples) >> 32];
      sums[drawn.bin] += drawn.gap;
    }
    double error = 0;
    for (const double sum : sums) error += std::abs(sum);
    errors.push_back(error / static_cast<double>(samples));
  }
  std::ranges::sort(errors);
  const auto percentile = [&](double share) {
    return errors[static_cast<std::size_t>(
        std::lround(share * static_cast<double>(replicates - 1)))];
  };
  return {percentile(0.025), percentile(0.975)};
}

}  // namespace

double top_confidence(std::span<const float> logits, double temperature) {
  const std::int32_t predicted = predicted_class(logits, LossKind::kSoftmaxCrossEntropy);
  return std::exp(-compute_loss(logits, predicted, 1 / temperature).value);
}

double negative_log_likelihood(const LabelledLogits& scores, double temperature) {
  return sum_losses(scores, 1 / temperature).value / static_cast<double>(scores.labels.size());
}

// Finds the root of the derivative with respect to 1 / temperature, which rises, by Newton's method
// inside a bracket that every step narrows.
double fit_temperature(const LabelledLogits& scores) {
  constexpr int kMaxSteps = 200;
  constexpr double kTolerance = 1e-13;
  double low = 1 / kMaxTemperature, high = 1 / kMinTemperature;
  if (sum_losses(scores, low).first >= 0) return kMaxTemperature;
  if (sum_losses(scores, high).first <= 0) return kMinTemperature;
  double scale = 1;
  for (int step = 0; step < kMaxSteps && high - low > kTolerance * low; ++step) {
    const SampleLoss at = sum_losses(scores, scale);
    if (at.first == 0) break;
    (at.first > 0 ? high : low) = scale;
    const double newton = at.second > 0 ? scale - at.first / at.second : low;
    const double next = newton > low && newton < high ? newton : std::sqrt(low * high);
    if (std::abs(next - scale) <= kTolerance * scale) break;
    scale = next;
  }
  return 1 / scale;
}

Reliability measure_reliability(const LabelledLogits& scores, double temperature) {
  Reliability result;
  result.bins.resize(Reliability::kBins);
  for (std::size_t b = 0; b < Reliability::kBins; ++b) {
    const auto bins = static_cast<double>(Reliability::kBins);
    result.bins[b].low = static_cast<double>(b) / bins;
    result.bins[b].high = static_cast<double>(b + 1) / bins;
  }
  std::vector<CalibrationGap> gaps;
  for (std::size_t i = 0; i < scores.labels.size(); ++i) {
    const std::span<const float> row = scores.row(i);
    const double confidence = top_confidence(row, temperature);
    const bool is_correct =
        predicted_class(row, LossKind::kSoftmaxCrossEntropy) == scores.labels[i];
    gaps.push_back({reliability_bin(confidence), (is_correct ? 1 : 0) - confidence});
    ReliabilityBin& bin = result.bins[gaps.back().bin];
    ++bin.samples;
    bin.correct += is_correct ? 1 : 0;
    bin.confidence += confidence;  // the sum, divided below
    result.confidence += confidence;
  }
  for (ReliabilityBin& bin : result.bins) {
    if (bin.samples == 0) continue;
    result.samples += bin.samples;
    result.correct += bin.correct;
    result.expected_calibration_error +=
        std::abs(static_cast<double>(bin.correct) - bin.confidence);
    bin.confidence /= static_cast<double>(bin.samples);
  }
  const auto samples = static_cast<double>(result.samples);
  result.confidence /= samples;
  result.expected_calibration_error /= samples;
  result.expected_calibration_error_interval = bootstrap_calibration_error(gaps);
  result.negative_log_likelihood = negative_log_likelihood(scores, temperature);
  return result;
}

}  // namespace trainer::engine
