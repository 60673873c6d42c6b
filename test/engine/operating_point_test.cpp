#include "engine/metrics/operating_point.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "engine/metrics/abstention.h"

using namespace trainer;
using namespace trainer::engine;
using Kind = OperatingCriterion::Kind;

namespace {

BinaryScores draw_risks(std::size_t samples, unsigned seed) {
  std::mt19937 random(seed);
  BinaryScores scores;
  for (std::size_t i = 0; i < samples; ++i) {
    const bool positive = i < 2 ? i == 0 : random() % 4 == 0;
    scores.is_positive.push_back(positive);
    scores.scores.push_back(static_cast<double>(random() % 30 + (positive ? 8 : 0)));
  }
  return scores;
}

// The counts that the criterion prefers, over thresholds at and between all scores.
OperatingCounts reference_counts(const BinaryScores& scores, const OperatingCriterion& criterion) {
  OperatingCounts best;
  bool found = false;
  for (int halves = 80; halves >= -2; --halves) {
    const double threshold = halves / 2.0;
    const OperatingCounts counts = count_at_threshold(scores, threshold);
    const double cost =
        criterion.false_positive_cost * static_cast<double>(counts.false_positives) +
        criterion.false_negative_cost * static_cast<double>(counts.false_negatives);
    const double best_cost =
        criterion.false_positive_cost * static_cast<double>(best.false_positives) +
        criterion.false_negative_cost * static_cast<double>(best.false_negatives);
    bool allowed = true, better = false;
    if (criterion.kind == Kind::kSensitivity) {
      allowed = counts.sensitivity() >= criterion.share - 1e-12;
      better = counts.specificity() > best.specificity();
    } else if (criterion.kind == Kind::kSpecificity) {
      allowed = counts.specificity() >= criterion.share - 1e-12;
      better = counts.sensitivity() > best.sensitivity();
    } else {
      better = cost < best_cost;
    }
    if (!allowed || (found && !better)) continue;
    best = counts;
    found = true;
  }
  return best;
}

}  // namespace

TEST_CASE("find_operating_threshold equals a search over all thresholds") {
  for (unsigned seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    const BinaryScores scores = draw_risks(60, seed);
    for (const OperatingCriterion& criterion :
         {OperatingCriterion{Kind::kSensitivity, 0.95, 0, 0},
          OperatingCriterion{Kind::kSensitivity, 1, 0, 0},
          OperatingCriterion{Kind::kSpecificity, 0.9, 0, 0},
          OperatingCriterion{Kind::kSpecificity, 1, 0, 0}, OperatingCriterion{Kind::kCost, 0, 1, 1},
          OperatingCriterion{Kind::kCost, 0, 1, 10}, OperatingCriterion{Kind::kCost, 0, 50, 1}}) {
      const double threshold = find_operating_threshold(scores, criterion);
      const OperatingCounts found = count_at_threshold(scores, threshold);
      CHECK(std::isfinite(threshold) == (found.true_positives + found.false_positives > 0));
      const OperatingCounts expected = reference_counts(scores, criterion);
      CHECK(found.true_positives == expected.true_positives);
      CHECK(found.false_negatives == expected.false_negatives);
      CHECK(found.true_negatives == expected.true_negatives);
      CHECK(found.false_positives == expected.false_positives);
    }
  }
}

TEST_CASE("find_operating_threshold equals values by hand") {
  BinaryScores scores;
  scores.scores = {1, 2, 3, 4, 5, 6};
  scores.is_positive = {false, true, false, false, true, true};
  const OperatingCriterion two_thirds{Kind::kSensitivity, 2.0 / 3, 0, 0};
  CHECK(find_operating_threshold(scores, two_thirds) == 4.5);
  CHECK(find_operating_threshold(scores, {Kind::kSensitivity, 1, 0, 0}) == 1.5);
  CHECK(find_operating_threshold(scores, {Kind::kSpecificity, 1.0 / 3, 0, 0}) == 1.5);
  CHECK(find_operating_threshold(scores, {Kind::kSpecificity, 1, 0, 0}) == 4.5);
  CHECK(find_operating_threshold(scores, {Kind::kCost, 0, 1, 1}) == 4.5);
  CHECK(find_operating_threshold(scores, {Kind::kCost, 0, 1, 3}) == 1.5);
  const OperatingCounts counts = count_at_threshold(scores, 4.5);
  CHECK(counts.sensitivity() == doctest::Approx(2.0 / 3));
  CHECK(counts.specificity() == 1);
  CHECK(counts.specificity_interval().low == doctest::Approx(wilson(3, 3).low));
  CHECK(counts.sensitivity_interval().high == doctest::Approx(wilson(2, 3).high));
  // The ends: all samples positive, and none.
  scores.is_positive[0] = true;
  CHECK(find_operating_threshold(scores, {Kind::kSensitivity, 1, 0, 0}) == 1);
  // A score that is equal to the threshold is positive.
  CHECK(count_at_threshold(scores, 1).false_negatives == 0);
  CHECK(count_at_threshold(scores, 1).false_positives == 2);
  scores.is_positive = {true, true, true, true, true, false};
  const double none = find_operating_threshold(scores, {Kind::kSpecificity, 1, 0, 0});
  CHECK(none == std::numeric_limits<double>::infinity());
  CHECK(count_at_threshold(scores, none).false_positives == 0);
}

TEST_CASE(
    "find_operating_threshold: no sample is positive where all scores are 0, or the largest") {
  BinaryScores scores;
  scores.is_positive = {true, false, false};
  for (const std::vector<double>& each : {std::vector<double>{0, 0, 0}, {-1, 0, -2}}) {
    scores.scores = each;
    const double threshold = find_operating_threshold(scores, {Kind::kSpecificity, 0.9, 0, 0});
    CHECK(count_at_threshold(scores, threshold).specificity() == 1);
  }
}

TEST_CASE("find_operating_threshold: neighbouring numbers are separated") {
  BinaryScores scores;
  scores.is_positive = {true, false};
  for (double lower : {1.0, std::nextafter(1.0, 2.0)}) {
    scores.scores = {std::nextafter(lower, 2.0), lower};
    const double threshold = find_operating_threshold(scores, {Kind::kSpecificity, 1, 0, 0});
    CHECK(count_at_threshold(scores, threshold).true_positives == 1);
    CHECK(count_at_threshold(scores, threshold).false_positives == 0);
  }
}

TEST_CASE("find_abstention_point: neighbouring confidences are separated") {
  for (const double lower : {0.75, std::nextafter(0.75, 1.0)}) {
    const std::vector<TopPrediction> predictions{{std::nextafter(lower, 1.0), true},
                                                 {lower, false}};
    const auto point = find_abstention_point(predictions, 0);
    REQUIRE(point);
    CHECK(point->confidence > lower);
    CHECK(point->answered == 1);
  }
}

TEST_CASE("parse_operating_criterion accepts three forms, and nothing else") {
  const auto sensitivity = parse_operating_criterion("sensitivity=0.95");
  REQUIRE(sensitivity);
  CHECK(sensitivity->kind == Kind::kSensitivity);
  CHECK(sensitivity->share == 0.95);
  const auto specificity = parse_operating_criterion("specificity=1");
  REQUIRE(specificity);
  CHECK(specificity->kind == Kind::kSpecificity);
  CHECK(specificity->share == 1);
  const auto cost = parse_operating_criterion("cost=1:12.5");
  REQUIRE(cost);
  CHECK(cost->kind == Kind::kCost);
  CHECK(cost->false_positive_cost == 1);
  CHECK(cost->false_negative_cost == 12.5);
  for (const char* wrong :
       {"", "0.95", "sensitivity", "sensitivity=", "sensitivity=95", "sensitivity=0", "recall=0.9",
        "specificity=nan", "specificity=-0.1", "cost=1", "cost=1:", "cost=:1", "cost=0:1",
        "cost=1:-1", "cost=inf:1", "cost=1:2:3", "sensitivity=0.9 "}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_operating_criterion(wrong));
  }
}

TEST_CASE("find_least_cost_class equals the sums of probability times cost") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> draw(0, 1);
  for (std::size_t classes = 2; classes < 6; ++classes) {
    int others = 0;
    for (int i = 0; i < 200; ++i) {
      CostMatrix costs{classes, std::vector<double>(classes * classes)};
      std::vector<double> probabilities(classes), expected(classes);
      for (double& cost : costs.costs) cost = 10 * draw(random);
      for (double& p : probabilities) p = draw(random) / static_cast<double>(classes);
      for (std::size_t k = 0; k < classes * classes; ++k) {
        expected[k % classes] += costs.costs[k] * probabilities[k / classes];
      }
      const auto least = std::min_element(expected.begin(), expected.end()) - expected.begin();
      CHECK(find_least_cost_class(probabilities, costs) == least);
      const auto top = std::max_element(probabilities.begin(), probabilities.end());
      others += top - probabilities.begin() != least ? 1 : 0;
    }
    CHECK(others > 20);
  }
}

TEST_CASE("find_least_cost_class equals values by hand") {
  // A miss of the second class costs 10 times as much as a false alarm.
  const CostMatrix dear{2, {0, 1, 10, 0}};
  CHECK(find_least_cost_class(std::vector<double>{0.92, 0.08}, dear) == 0);
  CHECK(find_least_cost_class(std::vector<double>{0.9, 0.1}, dear) == 1);
  // The first of equal ones, and the likeliest class where all errors cost the same.
  CHECK(find_least_cost_class(std::vector<double>{0.5, 0.5}, {2, {0, 1, 1, 0}}) == 0);
  CHECK(find_least_cost_class(std::vector<double>{0.2, 0.5, 0.3},
                              {3, {0, 1, 1, 1, 0, 1, 1, 1, 0}}) == 1);
  // A class that costs little whatever is true, such as to ask an expert.
  CHECK(find_least_cost_class(std::vector<double>{0.5, 0.4, 0.1},
                              {3, {0, 5, 1, 5, 0, 1, 5, 5, 1}}) == 2);
  const double none = std::nan("");
  CHECK(find_least_cost_class(std::vector<double>{none, none}, dear) == 0);
}

TEST_CASE("find_abstention_point equals a search over all confidences") {
  for (unsigned seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<TopPrediction> predictions;
    for (int i = 0; i < 80; ++i) {
      const double confidence = static_cast<double>(random() % 20 + 20) / 40;
      predictions.push_back({confidence, static_cast<double>(random() % 100) < 100 * confidence});
    }
    for (const double error : {0.0, 0.05, 0.1, 0.3, 1.0}) {
      CAPTURE(error);
      std::int64_t most = 0;
      for (const TopPrediction& at : predictions) {
        std::int64_t answered = 0, wrong = 0;
        for (const TopPrediction& one : predictions) {
          if (one.confidence < at.confidence) continue;
          ++answered;
          wrong += one.is_correct ? 0 : 1;
        }
        if (static_cast<double>(wrong) <= error * static_cast<double>(answered)) {
          most = std::max(most, answered);
        }
      }
      const auto point = find_abstention_point(predictions, error);
      REQUIRE(point.has_value() == (most > 0));
      if (!point) continue;
      CHECK(point->answered == most);
      std::int64_t answered = 0, wrong = 0;
      for (const TopPrediction& one : predictions) {
        if (one.confidence < point->confidence) continue;
        ++answered;
        wrong += one.is_correct ? 0 : 1;
      }
      CHECK(answered == most);
      CHECK(wrong == point->wrong);
      CHECK(static_cast<double>(wrong) <= error * static_cast<double>(answered));
    }
  }
}

TEST_CASE("find_abstention_point answers all where a model is wrong where it is most confident") {
  const std::vector<TopPrediction> predictions{{0.9, false}, {0.8, true}, {0.7, true}};
  CHECK_FALSE(find_abstention_point(predictions, 0.1));
  const auto point = find_abstention_point(predictions, 0.34);
  REQUIRE(point);
  CHECK(point->confidence == 0);
  CHECK(point->answered == 3);
  CHECK(point->wrong == 1);
  CHECK_FALSE(find_abstention_point({}, 1));
}
