// Distances to the nearest rows, compared with cleanlab.
#include "inference/predict/nearest_rows.h"

#include <doctest/doctest.h>

namespace trainer::inference {

TEST_CASE("NearestRows finds the distances of cleanlab") {
  constexpr std::size_t kWidth = 5;
  const std::vector<float> features{
      1.2f, 0.3f, 0.2f, 0.4f, 2.1f, 2.1f, 0.4f, 0.8f, 0.7f, 2.6f, 2.3f, 0.2f, 1.0f, 1.6f,
      1.2f, 0.3f, 0.9f, 1.2f, 0.6f, 0.5f, 1.3f, 1.6f, 0.1f, 0.6f, 1.4f, 2.8f, 0.6f, 0.3f,
      1.0f, 0.8f, 0.1f, 0.0f, 2.5f, 0.3f, 0.0f, 1.6f, 0.1f, 1.4f, 0.2f, 0.1f, 3.2f, 1.7f,
      2.0f, 0.3f, 0.1f, 2.0f, 1.0f, 2.0f, 0.2f, 0.7f, 3.0f, 0.2f, 0.7f, 1.1f, 0.7f, 1.2f,
      2.4f, 0.6f, 2.4f, 1.6f, 2.8f, 1.8f, 0.6f, 0.1f, 2.4f, 1.6f, 1.2f, 0.0f, 0.6f, 0.6f};
  // Drawn with numpy 2. By cleanlab 2.9.0:
  //   ood = cleanlab.outlier.OutOfDistribution(); scores = ood.fit_score(features=features)
  // where scores are exp(-distance / median(distances)), and distances those to the other rows.
  const std::vector<double> expected{0.2636959545864315,  0.1919730476441305,  0.17518928254456534,
                                     0.30928018749446157, 0.19804793378835178, 0.1591325702152465,
                                     0.5851260995078446,  0.24464872858172745, 0.2009647155736071,
                                     0.1914542059232517,  0.17561069522999948, 0.2699827582070139,
                                     0.16139735386876872, 0.17540143557305715};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto row = features.begin() + static_cast<std::ptrdiff_t>(i * kWidth);
    std::vector<float> others(features.begin(), row);
    others.insert(others.end(), row + kWidth, features.end());
    const NearestRows rows(others, kWidth);
    const NearestRows::Found found = rows.find({row, row + kWidth});
    CHECK(found.distance == doctest::Approx(expected[i]).epsilon(1e-5));
    REQUIRE(found.nearest.size() == kNearestRows);
    double sum = 0;
    for (const NearestRows::Row& near : found.nearest) sum += near.distance;
    CHECK(sum / kNearestRows == doctest::Approx(found.distance));
    CHECK(found.nearest.front().distance <= found.nearest.back().distance);
  }
}

TEST_CASE("NearestRows accepts few rows, long rows and rows of zeros") {
  constexpr std::size_t kWidth = 35;
  // Three rows: 0, 1, ..., 34, then zeros, then one feature.
  std::vector<float> features(3 * kWidth);
  std::vector<float> thrice(kWidth), zeros(kWidth);
  for (std::size_t i = 0; i < kWidth; ++i) {
    features[i] = static_cast<float>(i);
    thrice[i] = 3 * static_cast<float>(i);  // the length must not count
  }
  features[2 * kWidth] = 1;
  const NearestRows rows(features, kWidth);
  const NearestRows::Found found = rows.find(thrice);
  CHECK(found.distance == doctest::Approx(2.0 / 3).epsilon(1e-5));
  REQUIRE(found.nearest.size() == 3);
  CHECK(found.nearest[0].index == 0);
  CHECK(found.nearest[0].distance == doctest::Approx(0).epsilon(1e-5));
  CHECK(found.nearest[1].distance == doctest::Approx(1));
  CHECK(rows.find(zeros).distance == doctest::Approx(1));
}

}  // namespace trainer::inference
