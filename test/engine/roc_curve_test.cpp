#include "engine/metrics/roc_curve.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/metrics/roc_auc.h"
#include "support/pair_area.h"

using namespace trainer;
using namespace trainer::engine;

namespace {

// Scores with many equal ones.
BinaryScores draw_scores(std::size_t samples, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  BinaryScores scores;
  for (std::size_t i = 0; i < samples; ++i) {
    const bool positive = random() % 3 == 0;
    scores.is_positive.push_back(positive);
    scores.scores.push_back(std::round(5 * (normal(random) + (positive ? 1 : 0))) / 5);
  }
  return scores;
}

// Logits of four classes, which favour the label.
LabelledLogits draw_logits(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  LabelledLogits scores;
  scores.outputs = 4;
  for (int i = 0; i < 300; ++i) {
    const auto label = static_cast<std::int32_t>(random() % 4);
    for (int c = 0; c < 4; ++c) {
      scores.logits.push_back(normal(random) + (c == label ? 1.0f : 0.0f));
    }
    scores.labels.push_back(label);
  }
  return scores;
}

test::PairArea reference_area(const BinaryScores& scores) {
  std::vector<double> positive, negative;
  for (std::size_t i = 0; i < scores.scores.size(); ++i) {
    (scores.is_positive[i] ? positive : negative).push_back(scores.scores[i]);
  }
  return test::compare_pairs(positive, negative);
}

}  // namespace

TEST_CASE("roc_area: area and interval equal their definitions over all pairs") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const BinaryScores scores = draw_scores(20 + 10 * seed, seed);
    const test::PairArea reference = reference_area(scores);
    const RocArea found = roc_area(scores);
    const double half = 1.959963984540054 * std::sqrt(reference.variance);
    CHECK(found.area == doctest::Approx(reference.area).epsilon(1e-12));
    CHECK(found.interval.low == doctest::Approx(std::max(0.0, reference.area - half)));
    CHECK(found.interval.high == doctest::Approx(std::min(1.0, reference.area + half)));
    // The trapezoids below the curve have the same area.
    const std::vector<RocPoint> points = roc_curve(scores);
    double area = 0;
    for (std::size_t i = 1; i < points.size(); ++i) {
      area += (points[i].false_positive_rate - points[i - 1].false_positive_rate) *
              (points[i].true_positive_rate + points[i - 1].true_positive_rate) / 2;
    }
    CHECK(area == doctest::Approx(reference.area).epsilon(1e-12));
  }
}

TEST_CASE("curves: every point has the rates of its threshold") {
  const BinaryScores scores = draw_scores(150, 3);
  const auto called = [&](double threshold, bool positive) {
    double count = 0;
    for (std::size_t i = 0; i < scores.scores.size(); ++i) {
      count += scores.is_positive[i] == positive && scores.scores[i] >= threshold ? 1 : 0;
    }
    return count;
  };
  const auto positives = static_cast<double>(scores.positives());
  const auto negatives = static_cast<double>(scores.negatives());
  const std::vector<RocPoint> roc = roc_curve(scores);
  CHECK(std::isinf(roc.front().threshold));
  CHECK(roc.front().true_positive_rate == 0);
  CHECK(roc.back().true_positive_rate == 1);
  CHECK(roc.back().false_positive_rate == 1);
  for (const RocPoint& point : roc) {
    CHECK(point.true_positive_rate == doctest::Approx(called(point.threshold, true) / positives));
    CHECK(point.false_positive_rate == doctest::Approx(called(point.threshold, false) / negatives));
  }
  const std::vector<PrecisionRecallPoint> curve = precision_recall_curve(scores);
  REQUIRE(curve.size() + 1 == roc.size());
  double before = 0, area = 0;
  for (const PrecisionRecallPoint& point : curve) {
    const double yes = called(point.threshold, true), no = called(point.threshold, false);
    CHECK(point.precision == doctest::Approx(yes / (yes + no)));
    CHECK(point.recall == doctest::Approx(yes / positives));
    area += (point.recall - before) * point.precision;
    before = point.recall;
  }
  CHECK(average_precision(scores) == doctest::Approx(area));
}

// scikit-learn 1.9: roc_curve(drop_intermediate=False), roc_auc_score, precision_recall_curve,
// average_precision_score of these labels and scores.
TEST_CASE("curves have the values of scikit-learn") {
  BinaryScores scores;
  scores.is_positive = {false, false, true, true, true, false, true, false};
  scores.scores = {0.1, 0.4, 0.35, 0.8, 0.4, 0.7, 0.9, 0.2};
  const std::vector<RocPoint> roc = roc_curve(scores);
  const std::vector<double> false_rates{0, 0, 0, 0.25, 0.5, 0.5, 0.75, 1};
  const std::vector<double> true_rates{0, 0.25, 0.5, 0.5, 0.75, 1, 1, 1};
  const std::vector<double> thresholds{0.9, 0.8, 0.7, 0.4, 0.35, 0.2, 0.1};
  REQUIRE(roc.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(roc[i].false_positive_rate == false_rates[i]);
    CHECK(roc[i].true_positive_rate == true_rates[i]);
    if (i > 0) CHECK(roc[i].threshold == thresholds[i - 1]);
  }
  CHECK(roc_area(scores).area == 0.78125);
  const std::vector<double> precisions{1, 1, 2.0 / 3, 0.6, 2.0 / 3, 4.0 / 7, 0.5};
  const std::vector<PrecisionRecallPoint> curve = precision_recall_curve(scores);
  REQUIRE(curve.size() == 7);
  for (std::size_t i = 0; i < 7; ++i) CHECK(curve[i].precision == doctest::Approx(precisions[i]));
  CHECK(average_precision(scores) == doctest::Approx(0.8166666666666667).epsilon(1e-14));
}

TEST_CASE("roc_area: without two samples of each kind there is no interval") {
  BinaryScores scores;
  scores.scores = {1, 2, 3};
  scores.is_positive = {false, false, true};
  CHECK(roc_area(scores).area == 1);
  CHECK(std::isnan(roc_area(scores).interval.low));
  scores.scores.push_back(4);
  scores.is_positive.push_back(true);
  CHECK(roc_area(scores).interval.low == 1);
  CHECK(roc_area(scores).interval.high == 1);
}

TEST_CASE("one_against_rest keeps the order of probabilities, also where they round to 1") {
  LabelledLogits scores;
  scores.outputs = 3;
  scores.logits = {50, 0, 1, /**/ 51, 0, 1, /**/ 0, 3, -2, /**/ 1, 1, 1};
  scores.labels = {0, 1, 2, 0};
  const std::vector<BinaryScores> all = one_against_rest(scores);
  REQUIRE(all.size() == 3);
  CHECK(all[0].scores[0] < all[0].scores[1]);
  CHECK(all[0].is_positive == std::vector<bool>{true, false, false, true});
  CHECK(all[2].is_positive == std::vector<bool>{false, false, true, false});
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(all[c].scores[3] == doctest::Approx(-std::log(2.0)));
    const double own = std::exp(scores.row(2)[c]),
                 sum = std::exp(0.0) + std::exp(3.0) + std::exp(-2.0);
    CHECK(all[c].scores[2] == doctest::Approx(std::log(own / (sum - own))));
    CHECK(LogOdds(scores.row(2))(c) == all[c].scores[2]);
  }
  // Logits whose distance is beyond the exponents of a double.
  scores.logits = {2000, 0, 1, /**/ 2001, 0, 1, /**/ -9e4F, 9e4F, 0, /**/ 3e38F, -3e38F, 0};
  const std::vector<BinaryScores> far = one_against_rest(scores);
  CHECK(far[0].scores[0] == doctest::Approx(1999 - std::log1p(std::exp(-1.0))));
  CHECK(far[0].scores[1] == doctest::Approx(2000 - std::log1p(std::exp(-1.0))));
  CHECK(far[1].scores[0] == -2000);
  CHECK(far[0].scores[2] == -1.8e5);
  CHECK(far[1].scores[2] == 9e4);
  CHECK(far[0].scores[3] == static_cast<double>(3e38F));
  LabelledLogits single;
  single.logits = {2, -3};
  single.labels = {1, 0};
  const std::vector<BinaryScores> both = one_against_rest(single);
  REQUIRE(both.size() == 2);
  CHECK(both[1].scores == std::vector<double>{2, -3});
  CHECK(both[0].scores == std::vector<double>{-2, 3});
  CHECK(both[0].is_positive == std::vector<bool>{false, true});
}

TEST_CASE("RocAuc::area() is the mean of roc_area() over the classes, at any scale of the logits") {
  LabelledLogits scores = draw_logits(9);
  SUBCASE("of order one") {}
  SUBCASE("whose odds a float rounds to equal ones") {
    for (float& logit : scores.logits) logit = 4e7F + 4 * std::round(8 * logit);
  }
  SUBCASE("beyond the exponents of a double") {
    for (float& logit : scores.logits) logit *= 3000;
  }
  RocAuc auc(LossKind::kSoftmaxCrossEntropy, scores.outputs, 1 << 20);
  for (std::size_t i = 0; i < scores.labels.size(); ++i) auc.add(scores.row(i), scores.labels[i]);
  double sum = 0;
  for (const BinaryScores& one : one_against_rest(scores)) sum += roc_area(one).area;
  CHECK(sum / 4 == doctest::Approx(auc.area()).epsilon(1e-14));
}

TEST_CASE("RocAuc::area() separates odds that are equal as floats") {
  RocAuc auc(LossKind::kSoftmaxCrossEntropy, 2, 1 << 20);
  auc.add(std::vector<float>{-20'000'000, 1}, 1);
  auc.add(std::vector<float>{-20'000'000, 0}, 0);
  CHECK(auc.area() == 1);
}
