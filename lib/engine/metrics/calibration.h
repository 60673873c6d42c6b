// Measures how well probabilities agree with the share of correct predictions, and corrects them by
// a temperature: all logits are divided by it before softmax or sigmoid. The predicted class does
// not change. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/metrics/labelled_logits.h"
#include "engine/metrics/metrics.h"

namespace trainer::engine {

// The predicted class of a sample, which is correct if it is the label.
struct TopPrediction {
  double confidence = 0;  // the probability of the predicted class, in (0, 1]
  bool is_correct = false;
};
// Returns the probability of the predicted class of one sample.
double top_confidence(std::span<const float> logits, double temperature);

// Returns the mean over the samples of -log p, where p is the probability of the label. The scores
// must not be empty.
double negative_log_likelihood(const LabelledLogits& scores, double temperature);

// The range of temperatures that fit_temperature() returns.
inline constexpr double kMinTemperature = 0.01, kMaxTemperature = 100;
// Returns the temperature that minimises negative_log_likelihood(). There is one minimum, because
// the likelihood is convex in 1 / temperature; it is outside of the range for samples that are all
// predicted correctly, for example. The scores must not be empty.
double fit_temperature(const LabelledLogits& scores);

// The samples whose confidence is in (low, high].
struct ReliabilityBin {
  double low = 0, high = 0;
  std::int64_t samples = 0, correct = 0;
  double confidence = 0;  // the mean over the samples; 0 without samples
};

struct Reliability {
  static constexpr std::size_t kBins = 15;
  std::vector<ReliabilityBin> bins;  // bins of equal width over [0, 1]
  std::int64_t samples = 0, correct = 0;
  double confidence = 0;               // the mean over all samples
  double negative_log_likelihood = 0;  // the mean over all samples
  // The mean over all samples of |share of correct ones - mean confidence| of the sample's bin.
  double expected_calibration_error = 0;
  // The 2.5 and 97.5 % percentiles over bootstrap samples, which are the same in every call.
  Interval expected_calibration_error_interval;
};
// The scores must not be empty.
Reliability measure_reliability(const LabelledLogits& scores, double temperature);

}  // namespace trainer::engine
