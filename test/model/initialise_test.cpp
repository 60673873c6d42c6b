#include "model/initialise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/model.h"

namespace trainer::model {
namespace {

using config::Initializer;
using graph::Initial;
using Kind = Initializer::Kind;

graph::Value value(const char* name, Shape shape, Initial initial) {
  graph::Value made;
  made.name = name;
  made.shape = std::move(shape);
  made.role = graph::Role::kParameter;
  made.initial = initial;
  return made;
}

struct Statistics {
  double mean = 0, deviation = 0, low = 0, high = 0;
};

Statistics statistics(const std::vector<float>& numbers) {
  Statistics s;
  const auto n = static_cast<double>(numbers.size());
  for (const float x : numbers) s.mean += x / n;
  for (const float x : numbers) s.deviation += (x - s.mean) * (x - s.mean) / n;
  s.deviation = std::sqrt(s.deviation);
  s.low = *std::min_element(numbers.begin(), numbers.end());
  s.high = *std::max_element(numbers.begin(), numbers.end());
  return s;
}

}  // namespace

TEST_CASE("resolve_initializer: variance scaling has the limits and deviations of Keras") {
  const Fans fans{90, 60};
  const auto limit = [&](Kind kind) {
    const Initial initial = resolve_initializer({kind}, fans);
    CHECK(initial.kind == Initial::Kind::kUniform);
    CHECK(initial.a == -initial.b);
    return initial.b;
  };
  CHECK(limit(Kind::kGlorotUniform) == doctest::Approx(std::sqrt(6.0 / 150)));
  CHECK(limit(Kind::kHeUniform) == doctest::Approx(std::sqrt(6.0 / 90)));
  CHECK(limit(Kind::kLecunUniform) == doctest::Approx(std::sqrt(3.0 / 90)));
  const auto deviation = [&](Kind kind) {
    const Initial initial = resolve_initializer({kind}, fans);
    CHECK(initial.kind == Initial::Kind::kTruncatedNormal);
    return initial.b * .87962566103423978;
  };
  CHECK(deviation(Kind::kGlorotNormal) == doctest::Approx(std::sqrt(2.0 / 150)));
  CHECK(deviation(Kind::kHeNormal) == doctest::Approx(std::sqrt(2.0 / 90)));
  CHECK(deviation(Kind::kLecunNormal) == doctest::Approx(std::sqrt(1.0 / 90)));
}

TEST_CASE("kernel_initializer: each kind of kernel has its fans as in Keras") {
  const auto graph = test::build(R"(
  layers:
    - conv: {filters: 6, kernel_size: 3, groups: 2, kernel_initializer: he_uniform}
    - depthwise_conv: {kernel_size: 3, depth_multiplier: 2, depthwise_initializer: glorot_uniform}
    - flatten
    - dense: {units: 10, bias_initializer: glorot_uniform})",
                                 test::sample({5, 5, 4}, 10));
  const auto limit = [&](const char* name) { return graph[graph.find(name)].initial.b; };
  CHECK(limit("conv2d/kernel") == doctest::Approx(std::sqrt(6.0 / (9 * 2))));
  // Keras takes [3, 3, 6, 2]: 9 * 6 inputs, 9 * 2 outputs.
  CHECK(limit("depthwise_conv2d/depthwise_kernel") == doctest::Approx(std::sqrt(6.0 / (54 + 18))));
  CHECK(limit("dense/kernel") == doctest::Approx(std::sqrt(6.0 / (12 + 10))));
  CHECK(limit("dense/bias") == doctest::Approx(std::sqrt(6.0 / (10 + 10))));
}

TEST_CASE("initial_values have the mean, deviation and range of each distribution") {
  const Shape shape{200, 500};
  const auto uniform =
      statistics(initial_values(value("w", shape, {Initial::Kind::kUniform, -1, 3}), 1));
  CHECK(uniform.mean == doctest::Approx(1).epsilon(0.02));
  CHECK(uniform.deviation == doctest::Approx(4 / std::sqrt(12.0)).epsilon(0.01));
  CHECK(uniform.low >= -1);
  CHECK(uniform.high < 3);
  const auto normal =
      statistics(initial_values(value("w", shape, {Initial::Kind::kNormal, 2, 0.5}), 1));
  CHECK(normal.mean == doctest::Approx(2).epsilon(0.01));
  CHECK(normal.deviation == doctest::Approx(0.5).epsilon(0.01));
  CHECK(normal.high > 3.2);
  const auto cut =
      statistics(initial_values(value("w", shape, {Initial::Kind::kTruncatedNormal, 0, 1}), 1));
  CHECK(cut.deviation == doctest::Approx(.87962566).epsilon(0.01));
  CHECK(cut.low > -2.0001);
  CHECK(cut.high < 2.0001);
  CHECK(initial_values(value("w", {3}, {Initial::Kind::kConstant, 0.5, 0}), 1) ==
        std::vector<float>{0.5f, 0.5f, 0.5f});
}

TEST_CASE("initial_values depend on the seed and the name only") {
  const Initial initial{Initial::Kind::kUniform, -1, 1};
  const auto first = initial_values(value("a", {50}, initial), 7);
  CHECK(initial_values(value("a", {50}, initial), 7) == first);
  CHECK(initial_values(value("b", {50}, initial), 7) != first);
  CHECK(initial_values(value("a", {50}, initial), 8) != first);
}

TEST_CASE("initial_values of a weight average are the values of its parameter") {
  const Initial initial{Initial::Kind::kUniform, -1, 1};
  graph::Value average = value("a/average", {50}, initial);
  average.role = graph::Role::kSlot;
  CHECK(initial_values(average, 7) == initial_values(value("a", {50}, initial), 7));
}

}  // namespace trainer::model
