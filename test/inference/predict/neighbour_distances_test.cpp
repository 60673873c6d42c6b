// Distances to neighbours, compared with cleanlab.
#include "inference/predict/neighbour_distances.h"

#include <doctest/doctest.h>

namespace trainer::inference {

TEST_CASE("find_neighbour_distances equals the distances of cleanlab") {
  constexpr std::size_t kWidth = 5;
  const std::vector<float> features{
      1.2f, 0.3f, 0.2f, 0.4f, 2.1f, 2.1f, 0.4f, 0.8f, 0.7f, 2.6f, 2.3f, 0.2f, 1.0f, 1.6f,
      1.2f, 0.3f, 0.9f, 1.2f, 0.6f, 0.5f, 1.3f, 1.6f, 0.1f, 0.6f, 1.4f, 2.8f, 0.6f, 0.3f,
      1.0f, 0.8f, 0.1f, 0.0f, 2.5f, 0.3f, 0.0f, 1.6f, 0.1f, 1.4f, 0.2f, 0.1f, 3.2f, 1.7f,
      2.0f, 0.3f, 0.1f, 2.0f, 1.0f, 2.0f, 0.2f, 0.7f, 3.0f, 0.2f, 0.7f, 1.1f, 0.7f, 1.2f,
      2.4f, 0.6f, 2.4f, 1.6f, 2.8f, 1.8f, 0.6f, 0.1f, 2.4f, 1.6f, 1.2f, 0.0f, 0.6f, 0.6f};
  // Drawn with numpy 2. By cleanlab 2.9.0:
  //   ood = cleanlab.outlier.OutOfDistribution(); scores = ood.fit_score(features=features)
  // where scores are exp(-distance / median(distances)).
  const std::vector<double> expected{0.2636959545864315,  0.1919730476441305,  0.17518928254456534,
                                     0.30928018749446157, 0.19804793378835178, 0.1591325702152465,
                                     0.5851260995078446,  0.24464872858172745, 0.2009647155736071,
                                     0.1914542059232517,  0.17561069522999948, 0.2699827582070139,
                                     0.16139735386876872, 0.17540143557305715};
  const std::vector<double> distances = find_neighbour_distances(features, kWidth);
  REQUIRE(distances.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(distances[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

TEST_CASE("find_neighbour_distances accepts few rows, long rows and rows of zeros") {
  CHECK(find_neighbour_distances(std::vector<float>{1, 2}, 2) == std::vector<double>{0});
  // 35 features, of which the length must not count.
  std::vector<float> features(4 * 35);
  for (std::size_t i = 0; i < 35; ++i) {
    features[i] = static_cast<float>(i);
    features[35 + i] = 3 * static_cast<float>(i);
    features[3 * 35 + i] = i == 0 ? 1.0f : 0.0f;
  }
  const std::vector<double> distances = find_neighbour_distances(features, 35);
  CHECK(distances[0] == doctest::Approx(2.0 / 3).epsilon(1e-5));
  CHECK(distances[1] == doctest::Approx(2.0 / 3).epsilon(1e-5));
  CHECK(distances[2] == doctest::Approx(1));
  CHECK(distances[3] == doctest::Approx(1));
}

}  // namespace trainer::inference
