#include "engine/metrics/ensemble.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/numbers/random.h"

namespace trainer::engine::ensemble_test {
namespace {

using Logits = std::vector<float>;

Logits average(LossKind loss, const std::vector<Logits>& models) {
  std::vector<std::span<const float>> parts(models.begin(), models.end());
  Logits mean(models[0].size());
  average_probabilities(loss, parts, mean);
  return mean;
}

std::vector<double> softmax(const Logits& logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  for (const float x : logits) p.push_back(std::exp(static_cast<double>(x)) / sum);
  return p;
}

double sigmoid(float x) { return 1 / (1 + std::exp(-static_cast<double>(x))); }

// Returns log(exp(a) + exp(b)).
double log_add(double a, double b) {
  return std::max(a, b) + std::log1p(std::exp(std::min(a, b) - std::max(a, b)));
}

double log_sigmoid(double x) { return -log_add(0, -x); }

}  // namespace

// --flip gives two predictions of an image, whose mean keeps its bits from version to version.
TEST_CASE("average_probabilities: the mean of two predictions equals these formulas bit by bit") {
  Random random(7, Stream::kSynthetic);
  for (int round = 0; round < 200; ++round) {
    Logits one(5), other(5);
    const float scale = round < 100 ? 10.0f : 200.0f;
    for (float& x : one) x = (random.uniform() - 0.5f) * scale;
    for (float& x : other) x = (random.uniform() - 0.5f) * scale;
    const Logits softmax_mean = average(LossKind::kSoftmaxCrossEntropy, {one, other});
    const Logits binary_mean = average(LossKind::kBinaryCrossEntropy, {one, other});
    const auto log_sum = [](const Logits& logits) {
      const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
      double sum = 0;
      for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
      return largest + std::log(sum);
    };
    for (std::size_t c = 0; c < one.size(); ++c) {
      const auto a = static_cast<double>(one[c]), b = static_cast<double>(other[c]);
      CHECK(softmax_mean[c] ==
            static_cast<float>(log_add(a - log_sum(one), b - log_sum(other)) - std::log(2.0)));
      CHECK(binary_mean[c] == static_cast<float>(log_add(log_sigmoid(a), log_sigmoid(b)) -
                                                 log_add(log_sigmoid(-a), log_sigmoid(-b))));
    }
  }
  Logits in_place{1, -2};
  average_probabilities(LossKind::kSoftmaxCrossEntropy, {in_place, Logits{0, 3}}, in_place);
  CHECK(in_place == average(LossKind::kSoftmaxCrossEntropy, {{1, -2}, {0, 3}}));
}

TEST_CASE("average_probabilities: softmax has the logarithms of the mean") {
  const std::vector<Logits> models{{1, 2, -1}, {0.5, -3, 2}, {4, 0, 0}};
  const Logits mean = average(LossKind::kSoftmaxCrossEntropy, models);
  for (std::size_t c = 0; c < 3; ++c) {
    double p = 0;
    for (const Logits& one : models) p += softmax(one)[c] / 3;
    CHECK(static_cast<double>(mean[c]) == doctest::Approx(std::log(p)).epsilon(1e-6));
  }
  // Differences that a probability cannot represent stay finite.
  const Logits far = average(LossKind::kSoftmaxCrossEntropy, {{1000, 0}, {900, 0}});
  CHECK(far[0] == doctest::Approx(0));
  CHECK(far[1] == doctest::Approx(-900 - std::log(2.0)));
}

TEST_CASE(
    "average_probabilities: binary outputs are averaged each by itself, and squared error outputs "
    "too") {
  const std::vector<Logits> models{{2, -1}, {-0.5, 3}};
  const Logits mean = average(LossKind::kBinaryCrossEntropy, models);
  for (std::size_t c = 0; c < 2; ++c) {
    const double p = (sigmoid(models[0][c]) + sigmoid(models[1][c])) / 2;
    CHECK(sigmoid(mean[c]) == doctest::Approx(p).epsilon(1e-6));
  }
  CHECK(average(LossKind::kMeanSquaredError, models) == Logits{0.75, 1});
  const Logits far = average(LossKind::kBinaryCrossEntropy, {{900, -900}, {800, -950}});
  CHECK(far[0] == doctest::Approx(800 + std::log(2.0)));
  CHECK(far[1] == doctest::Approx(-900 - std::log(2.0)));
}

TEST_CASE("sample_loss equals the losses of Keras for one sample") {
  const Logits logits{1, 2, -1};
  CHECK(sample_loss(LossKind::kSoftmaxCrossEntropy, logits, 1) ==
        doctest::Approx(-std::log(softmax(logits)[1])));
  CHECK(sample_loss(LossKind::kBinaryCrossEntropy, Logits{0.7f}, 1) ==
        doctest::Approx(-std::log(sigmoid(0.7f))));
  CHECK(sample_loss(LossKind::kBinaryCrossEntropy, Logits{0.7f}, 0) ==
        doctest::Approx(-std::log(1 - sigmoid(0.7f))));
  CHECK(sample_loss(LossKind::kMeanSquaredError, Logits{0.75f}, 1) == doctest::Approx(0.0625));
  CHECK(sample_loss(LossKind::kMeanSquaredError, Logits{0.5f, 0.25f}, 0) ==
        doctest::Approx((0.25 + 0.0625) / 2));
}

}  // namespace trainer::engine::ensemble_test
