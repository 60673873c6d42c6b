#include "engine/metrics/metrics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "engine/fixture_cases.h"
#include "support/confusion.h"

using namespace trainer;
using namespace trainer::engine;

TEST_CASE("wilson equals the closed form, and its ends are 0 and 1") {
  // Closed form evaluated with 50 digits.
  const Interval most = wilson(9900, 10000);
  CHECK(most.low == doctest::Approx(0.98785302).epsilon(1e-7));
  CHECK(most.high == doctest::Approx(0.99177066).epsilon(1e-7));
  CHECK(wilson(0, 10).low == 0.0);
  CHECK(wilson(0, 10).high == doctest::Approx(0.27753279).epsilon(1e-7));
  for (std::int64_t count = 1; count <= 100; ++count) {
    CHECK(wilson(0, count).low == 0.0);
    CHECK(wilson(count, count).high == 1.0);
  }
  CHECK(wilson(0, 0).low == 0.0);
  CHECK(wilson(0, 0).high == 1.0);
}

TEST_CASE("metrics: counts add up over several batches, and ties go to the lower class") {
  MetricsAccumulator metrics(LossKind::kSoftmaxCrossEntropy, 3, 2);
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
  CHECK(result.confusion == make_confusion({1, 1, 0, 0, 0, 0, 0, 1, 0}));
  const auto rows = result.per_class();
  CHECK(rows[0].support == 2);
  CHECK(rows[0].precision == doctest::Approx(1.0));
  CHECK(rows[0].recall == doctest::Approx(0.5));
  CHECK(rows[0].f1 == doctest::Approx(2.0 / 3));
  CHECK(rows[1].precision == 0.0);
  CHECK(rows[1].f1 == 0.0);
}

TEST_CASE("metrics: one logit decides between two classes at zero") {
  MetricsAccumulator metrics(LossKind::kBinaryCrossEntropy, 1, 5);
  const float logits[] = {-0.1f, 0.1f, 0.0f, 3.0f};
  const float losses[] = {1, 1, 1, 1};
  const std::int32_t labels[] = {0, 1, 0, 0};
  metrics.add(logits, losses, labels);
  const Metrics result = metrics.result();
  CHECK(result.classes == 2);
  CHECK(result.correct == 3);
  CHECK(result.top_k == 0);
  CHECK(result.confusion == make_confusion({2, 1, 0, 1}));
}

// test/keras/class_metrics.json: what scikit-learn computes, in double.
TEST_CASE("metrics: F1, balanced accuracy and AUC equal scikit-learn's") {
  for (const auto& example : test::read_fixture_cases("class_metrics.json")) {
    const std::string name = example["name"];
    CAPTURE(name);
    const std::int64_t outputs = example["outputs"];
    MetricsAccumulator metrics(
        outputs == 1 ? LossKind::kBinaryCrossEntropy : LossKind::kSoftmaxCrossEntropy, outputs, 0);
    const auto labels = example["labels"].get<std::vector<std::int32_t>>();
    // Batches whose last one is short.
    for (std::size_t first = 0; first < labels.size(); first += 32) {
      std::vector<float> scores;
      const std::size_t last = std::min(first + 32, labels.size());
      for (std::size_t s = first; s < last; ++s) {
        for (const auto& score : example["scores"][s]) scores.push_back(score.get<float>());
      }
      const std::vector<float> losses(last - first, 1.0f);
      metrics.add(scores, losses, std::span(labels).subspan(first, last - first));
    }
    const Metrics result = metrics.result();
    const auto expected = [&](const char* key) {
      return doctest::Approx(example[key].get<double>()).epsilon(1e-12);
    };
    const ClassMeans means = result.class_means();
    CHECK(means.f1_macro == expected("f1_macro"));
    CHECK(means.f1_weighted == expected("f1_weighted"));
    CHECK(means.balanced_accuracy == expected("balanced_accuracy"));
    CHECK(result.auc == expected("auc"));
  }
}

TEST_CASE("named_metrics has the metrics that have a value") {
  MetricsAccumulator metrics(LossKind::kSoftmaxCrossEntropy, 3, 2);
  const float logits[] = {2, 1, 0, /**/ 0, 5, 4};
  const float losses[] = {1, 3};
  const std::int32_t labels[] = {0, 2};
  metrics.add(logits, losses, labels);
  std::vector<std::string> names;
  for (const auto& [name, value] : named_metrics(metrics.result())) names.emplace_back(name);
  CHECK(names == std::vector<std::string>{"loss", "accuracy", "top_k_accuracy", "f1_macro",
                                          "f1_weighted", "balanced_accuracy", "auc"});
  CHECK(
      named_metrics(MetricsAccumulator(LossKind::kMeanSquaredError, 3, 0, false).result()).size() ==
      1);
}

TEST_CASE("metrics: one class, NaN or too many scores give no AUC") {
  const float logits[] = {0.5f, -1.0f};
  const float losses[] = {1, 1};
  const auto auc = [&](std::vector<float> scores, std::vector<std::int32_t> labels,
                       std::int64_t most) {
    MetricsAccumulator metrics(LossKind::kBinaryCrossEntropy, 1, 0, true, most);
    metrics.add(scores, std::span(losses, labels.size()), labels);
    return metrics.result().auc;
  };
  const std::vector<float> scores(logits, logits + 2);
  CHECK(auc(scores, {1, 0}, kMaxScores) == 1);
  CHECK(auc(scores, {0, 1}, kMaxScores) == 0);
  CHECK(auc({0.5f, 0.5f}, {0, 1}, kMaxScores) == 0.5);
  CHECK(std::isnan(auc(scores, {1, 1}, kMaxScores)));
  CHECK(std::isnan(auc({NAN, 1}, {0, 1}, kMaxScores)));
  CHECK(std::isnan(auc(scores, {0, 1}, 1)));
}

TEST_CASE("metrics: AUC still orders probabilities that a float rounds to 1") {
  MetricsAccumulator metrics(LossKind::kSoftmaxCrossEntropy, 2, 0);
  const float logits[] = {0, 40, /**/ 0, 45, /**/ 50, 0};
  const float losses[] = {1, 1, 1};
  const std::int32_t labels[] = {0, 1, 0};
  metrics.add(logits, losses, labels);
  CHECK(metrics.result().auc == 1);
}
