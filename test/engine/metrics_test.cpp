#include "engine/metrics.h"

#include <doctest/doctest.h>

using namespace trainer;
using namespace trainer::engine;

TEST_CASE("wilson: known values and the ends") {
  // Closed form evaluated with 50 digits.
  const Interval most = wilson(9900, 10000);
  CHECK(most.low == doctest::Approx(0.98785302).epsilon(1e-7));
  CHECK(most.high == doctest::Approx(0.99177066).epsilon(1e-7));
  CHECK(wilson(0, 10).low == 0.0);
  CHECK(wilson(0, 10).high == doctest::Approx(0.27753279).epsilon(1e-7));
  CHECK(wilson(10, 10).high == doctest::Approx(1.0));
  CHECK(wilson(0, 0).low == 0.0);
  CHECK(wilson(0, 0).high == 1.0);
}

TEST_CASE("metrics: counts over several batches, ties to the lower class") {
  MetricsAccumulator metrics(graph::LossKind::kSoftmaxCrossEntropy, 3, 2);
  const float first[] = {2, 1, 0, /**/ 0, 5, 5};
  const float second[] = {1, 3, 2};
  const float losses[] = {0.5f, 1.5f};
  const std::int32_t labels[] = {0, 2};
  const std::int32_t last[] = {0};
  metrics.add(first, losses, labels);
  metrics.add(second, std::span(losses, 1), last);
  const Metrics result = metrics.result();
  CHECK(result.count == 3);
  CHECK(result.correct == 1);  // the tie of sample 2 goes to class 1, its label is 2
  CHECK(result.loss == doctest::Approx(2.5 / 3));
  CHECK(result.top_k == 2);
  CHECK(result.top_k_accuracy == doctest::Approx(2.0 / 3));
  CHECK(result.confusion == std::vector<std::int64_t>{1, 1, 0, 0, 0, 0, 0, 1, 0});
  const auto rows = result.per_class();
  CHECK(rows[0].support == 2);
  CHECK(rows[0].precision == doctest::Approx(1.0));
  CHECK(rows[0].recall == doctest::Approx(0.5));
  CHECK(rows[0].f1 == doctest::Approx(2.0 / 3));
  CHECK(rows[1].precision == 0.0);
  CHECK(rows[1].f1 == 0.0);
}

TEST_CASE("metrics: one logit decides between two classes at zero") {
  MetricsAccumulator metrics(graph::LossKind::kBinaryCrossEntropy, 1, 5);
  const float logits[] = {-0.1f, 0.1f, 0.0f, 3.0f};
  const float losses[] = {1, 1, 1, 1};
  const std::int32_t labels[] = {0, 1, 0, 0};
  metrics.add(logits, losses, labels);
  const Metrics result = metrics.result();
  CHECK(result.classes == 2);
  CHECK(result.correct == 3);
  CHECK(result.top_k == 0);
  CHECK(result.confusion == std::vector<std::int64_t>{2, 1, 0, 1});
}
