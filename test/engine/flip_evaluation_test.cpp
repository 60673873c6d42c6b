// Results of images and their mirror images, beside the same by hand.
#include "engine/flip_evaluation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace trainer::engine {
namespace {

// The probabilities that logits stand for, in long double.
std::vector<long double> probabilities(LossKind loss, const std::vector<float>& logits) {
  std::vector<long double> p(logits.begin(), logits.end());
  if (loss == LossKind::kSoftmaxCrossEntropy) {
    long double sum = 0;
    for (long double& x : p) sum += x = std::exp(x);
    for (long double& x : p) x /= sum;
  } else if (loss == LossKind::kBinaryCrossEntropy) {
    for (long double& x : p) x = 1 / (1 + std::exp(-x));
  }
  return p;
}

}  // namespace

TEST_CASE("a flipped image has the pixels of each row in reverse, each with its channels") {
  std::vector<std::uint8_t> images(2 * 2 * 3 * 2);  // 2 images of 2 x 3 pixels with 2 channels
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::uint8_t>(i);
  std::vector<std::byte> flipped;
  flip_images(Shape{2, 3, 2}, DType::kUInt8, 2, images.data(), flipped);
  const std::vector<std::uint8_t> expected{4,  5,  2,  3,  0,  1,  10, 11, 8,  9,  6,  7,
                                           16, 17, 14, 15, 12, 13, 22, 23, 20, 21, 18, 19};
  REQUIRE(flipped.size() == expected.size());
  CHECK(std::memcmp(flipped.data(), expected.data(), expected.size()) == 0);

  const std::vector<float> floats{1, 2, 3, 4, 5, 6}, reversed{3, 2, 1, 6, 5, 4};
  flip_images(Shape{2, 3, 1}, DType::kFloat32, 1, floats.data(), flipped);
  REQUIRE(flipped.size() == 24);
  CHECK(std::memcmp(flipped.data(), reversed.data(), 24) == 0);
}

TEST_CASE("the logits of a mean stand for the mean of the probabilities") {
  const std::vector<float> one{0.5f, -2, 3, 0.25f}, other{-1, 4, 2.5f, 0};
  for (const LossKind loss : {LossKind::kSoftmaxCrossEntropy, LossKind::kBinaryCrossEntropy,
                              LossKind::kMeanSquaredError}) {
    std::vector<float> mean(one.size());
    mean_of_probabilities(loss, one, other, mean);
    const auto p = probabilities(loss, one), q = probabilities(loss, other);
    const auto found = probabilities(loss, mean);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      CAPTURE(i);
      const long double expected = (p[i] + q[i]) / 2;
      CHECK(std::abs(static_cast<double>(found[i] - expected)) < 1e-6);
    }
  }
}

TEST_CASE("the mean of probabilities near 0 and 1 stays finite") {
  const std::vector<float> one{900, -900}, other{800, -950};
  std::vector<float> mean(2);
  mean_of_probabilities(LossKind::kSoftmaxCrossEntropy, one, other, mean);
  CHECK(mean[0] == doctest::Approx(0));
  CHECK(mean[1] == doctest::Approx(-1750 - std::log(2.0)));  // the larger of -1800 and -1750
  mean_of_probabilities(LossKind::kBinaryCrossEntropy, one, other, mean);
  CHECK(mean[0] == doctest::Approx(800 + std::log(2.0)));
  CHECK(mean[1] == doctest::Approx(-900 - std::log(2.0)));
}

}  // namespace trainer::engine
