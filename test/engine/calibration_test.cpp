#include "engine/metrics/calibration.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace trainer;
using namespace trainer::engine;

namespace {

// Logits of which a share is correct that is lower than their confidence.
LabelledLogits draw_overconfident(std::int64_t outputs, std::size_t samples, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  LabelledLogits scores;
  scores.outputs = outputs;
  for (std::size_t i = 0; i < samples; ++i) {
    const auto classes = static_cast<std::uint32_t>(scores.classes());
    const auto label = static_cast<std::int32_t>(random() % classes);
    for (std::int64_t c = 0; c < outputs; ++c) {
      const float shift = outputs == 1 ? (label == 1 ? 1.5f : -1.5f) : (c == label ? 3.0f : 0.0f);
      scores.logits.push_back(shift + 4 * normal(random));
    }
    scores.labels.push_back(label);
  }
  return scores;
}

std::vector<double> reference_probabilities(std::span<const float> row, double temperature) {
  std::vector<double> powers;
  if (row.size() == 1) powers.push_back(1);
  for (const float x : row) powers.push_back(std::exp(static_cast<double>(x) / temperature));
  double sum = 0;
  for (const double x : powers) sum += x;
  for (double& x : powers) x /= sum;
  return powers;
}

double reference_nll(const LabelledLogits& scores, double temperature) {
  double sum = 0;
  for (std::size_t i = 0; i < scores.labels.size(); ++i) {
    sum -= std::log(reference_probabilities(
        scores.row(i), temperature)[static_cast<std::size_t>(scores.labels[i])]);
  }
  return sum / static_cast<double>(scores.labels.size());
}

// The error by its definition, bin by bin.
double reference_calibration_error(const LabelledLogits& scores, double temperature) {
  double error = 0;
  for (int b = 0; b < 15; ++b) {
    double count = 0, correct = 0, confidence = 0;
    for (std::size_t i = 0; i < scores.labels.size(); ++i) {
      const std::vector<double> p = reference_probabilities(scores.row(i), temperature);
      const auto top = std::max_element(p.begin(), p.end());
      if (!(*top > b / 15.0 && *top <= (b + 1) / 15.0)) continue;
      ++count;
      confidence += *top;
      correct += top - p.begin() == scores.labels[i] ? 1 : 0;
    }
    if (count > 0) error += count * std::abs(correct / count - confidence / count);
  }
  return error / static_cast<double>(scores.labels.size());
}

}  // namespace

TEST_CASE("calibration: likelihood and calibration error equal their definitions") {
  for (const std::int64_t outputs : {1, 2, 7}) {
    CAPTURE(outputs);
    const LabelledLogits scores = draw_overconfident(outputs, 500, 3);
    for (const double temperature : {0.5, 1.0, 3.0}) {
      CHECK(negative_log_likelihood(scores, temperature) ==
            doctest::Approx(reference_nll(scores, temperature)).epsilon(1e-12));
      const Reliability measured = measure_reliability(scores, temperature);
      CHECK(measured.expected_calibration_error ==
            doctest::Approx(reference_calibration_error(scores, temperature)).epsilon(1e-12));
      CHECK(measured.samples == 500);
      CHECK(measured.negative_log_likelihood == negative_log_likelihood(scores, temperature));
    }
  }
}

TEST_CASE("measure_reliability: four samples have the values computed by hand") {
  // Confidences 0.75, 0.75, 0.9 and 0.5; the third is wrong.
  LabelledLogits scores;
  const float three = std::log(3.0f), nine = std::log(9.0f);
  scores.logits = {three, -three, nine, 0};
  scores.labels = {1, 0, 0, 0};
  const Reliability measured = measure_reliability(scores, 1);
  REQUIRE(measured.bins.size() == 15);
  CHECK(measured.correct == 3);
  CHECK(measured.bins[7].samples == 1);   // 0.5
  CHECK(measured.bins[11].samples == 2);  // 0.75
  CHECK(measured.bins[11].correct == 2);
  CHECK(measured.bins[11].confidence == doctest::Approx(0.75));
  CHECK(measured.bins[13].samples == 1);  // 0.9
  CHECK(measured.bins[13].correct == 0);
  CHECK(measured.bins[11].low == doctest::Approx(11 / 15.0));
  CHECK(measured.bins[11].high == doctest::Approx(12 / 15.0));
  CHECK(measured.confidence == doctest::Approx((0.75 + 0.75 + 0.9 + 0.5) / 4));
  CHECK(measured.expected_calibration_error == doctest::Approx((0.5 + 0.9 + 0.5) / 4));
  CHECK(measured.negative_log_likelihood ==
        doctest::Approx(-(2 * std::log(0.75) + std::log(0.1) + std::log(0.5)) / 4).epsilon(1e-6));
}

TEST_CASE("measure_reliability: the interval has the width of the spread over other samples") {
  const Reliability measured = measure_reliability(draw_overconfident(4, 2000, 5), 1);
  const Interval interval = measured.expected_calibration_error_interval;
  CHECK(interval.low < measured.expected_calibration_error);
  CHECK(interval.high > measured.expected_calibration_error);
  std::vector<double> errors;
  for (unsigned seed = 100; seed < 300; ++seed) {
    errors.push_back(reference_calibration_error(draw_overconfident(4, 2000, seed), 1));
  }
  std::sort(errors.begin(), errors.end());
  const double spread = errors[194] - errors[5];  // 95 % of them
  const double ratio = (interval.high - interval.low) / spread;
  CHECK(ratio > 0.75);
  CHECK(ratio < 1.3);
  const Interval again =
      measure_reliability(draw_overconfident(4, 2000, 5), 1).expected_calibration_error_interval;
  CHECK(again.low == interval.low);
  CHECK(again.high == interval.high);
}

TEST_CASE("fit_temperature finds the minimum of the likelihood") {
  for (const std::int64_t outputs : {1, 2, 5}) {
    CAPTURE(outputs);
    const LabelledLogits scores = draw_overconfident(outputs, 800, 7);
    const double temperature = fit_temperature(scores);
    CHECK(temperature > 1.5);
    const double least = reference_nll(scores, temperature);
    for (int i = 0; i < 360; ++i) {
      CHECK(reference_nll(scores, 0.05 * std::pow(1.02, i)) >= least - 1e-12);
    }
    const double slope =
        reference_nll(scores, temperature * 1.0001) - reference_nll(scores, temperature / 1.0001);
    CHECK(std::abs(slope) < 1e-10);
    // Logits twice as large need twice the temperature.
    LabelledLogits twice = scores;
    for (float& x : twice.logits) x *= 2;
    CHECK(fit_temperature(twice) == doctest::Approx(2 * temperature).epsilon(1e-9));
    CHECK(measure_reliability(scores, temperature).expected_calibration_error <
          measure_reliability(scores, 1).expected_calibration_error);
  }
}

TEST_CASE("fit_temperature: two values have the closed form") {
  // Three of four samples with the logit 1 are right: the probability becomes 3/4.
  LabelledLogits scores;
  scores.logits = {1, 1, 1, 1};
  scores.labels = {1, 1, 1, 0};
  CHECK(fit_temperature(scores) == doctest::Approx(1 / std::log(3.0)).epsilon(1e-10));
  scores.outputs = 3;
  scores.logits = {2, 0, 0, /**/ 0, 2, 0, /**/ 0, 0, 2, /**/ 2, 0, 0};
  scores.labels = {0, 1, 2, 1};
  // exp(2 / T) / (exp(2 / T) + 2) = 3/4
  CHECK(fit_temperature(scores) == doctest::Approx(2 / std::log(6.0)).epsilon(1e-10));
}

TEST_CASE("fit_temperature: a minimum outside of the range gives its end") {
  LabelledLogits right;
  right.logits = {1, -1};
  right.labels = {1, 0};
  CHECK(fit_temperature(right) == kMinTemperature);
  LabelledLogits wrong = right;
  wrong.labels = {0, 1};
  CHECK(fit_temperature(wrong) == kMaxTemperature);
}

TEST_CASE("calibration: logits of any size give finite values") {
  LabelledLogits scores;
  scores.outputs = 3;
  scores.logits = {1e4f, -1e4f, 0, /**/ 1e4f, 1e4f, -1e4f};
  scores.labels = {0, 0};
  CHECK(negative_log_likelihood(scores, 1) == doctest::Approx(std::log(2.0) / 2));
  CHECK(top_confidence(scores.row(0), 1) == 1.0);
  CHECK(top_confidence(scores.row(1), 1) == doctest::Approx(0.5));
  scores.labels = {1, 2};
  CHECK(negative_log_likelihood(scores, 1) == doctest::Approx((4e4 + std::log(2.0)) / 2));
}

TEST_CASE("why_no_class_probabilities: regression and several labels per image have a reason") {
  CHECK(why_no_class_probabilities(LossKind::kSoftmaxCrossEntropy, 2).empty());
  CHECK(why_no_class_probabilities(LossKind::kSoftmaxCrossEntropy, 10).empty());
  CHECK(why_no_class_probabilities(LossKind::kBinaryCrossEntropy, 1).empty());
  CHECK(why_no_class_probabilities(LossKind::kBinaryCrossEntropy, 3).find("3 outputs") !=
        std::string::npos);
  CHECK(why_no_class_probabilities(LossKind::kMeanSquaredError, 2).find("mean_squared_error") !=
        std::string::npos);
  CHECK_FALSE(why_no_class_probabilities(LossKind::kSoftmaxCrossEntropy, 1).empty());
}
