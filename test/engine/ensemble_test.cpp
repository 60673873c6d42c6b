#include "engine/metrics/ensemble.h"

#include <doctest/doctest.h>

#include <cmath>

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

}  // namespace

TEST_CASE("average_probabilities: softmax, the logarithms of the mean") {
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

TEST_CASE("average_probabilities: binary, each output by itself, squared error the mean") {
  const std::vector<Logits> models{{2, -1}, {-0.5, 3}};
  const Logits mean = average(LossKind::kBinaryCrossEntropy, models);
  for (std::size_t c = 0; c < 2; ++c) {
    const double p = (sigmoid(models[0][c]) + sigmoid(models[1][c])) / 2;
    CHECK(sigmoid(mean[c]) == doctest::Approx(p).epsilon(1e-6));
  }
  CHECK(average(LossKind::kMeanSquaredError, models) == Logits{0.75, 1});
  CHECK(std::isfinite(average(LossKind::kBinaryCrossEntropy, {{500}, {600}})[0]));
}

TEST_CASE("sample_loss: the losses of Keras for one sample") {
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
