#include "results/crossval/fold_decisions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "results/write_json.h"
#include "support/contains.h"
#include "support/pair_area.h"

namespace trainer::results::fold_decisions_test {
namespace {

using engine::LabelledLogits;
using test::contains;

const std::vector<std::string> kClasses{"well", "ill"};

// Folds of different sizes whose logits are too large and shifted by the fold.
std::vector<LabelledLogits> make_folds() {
  std::mt19937 random(11);
  std::normal_distribution<double> noise;
  std::vector<LabelledLogits> folds;
  for (const int samples : {40, 61, 53}) {
    LabelledLogits fold;
    fold.outputs = 2;
    for (int i = 0; i < samples; ++i) {
      const auto label = static_cast<std::int32_t>(random() % 3 == 0);
      const double shift = 0.4 * static_cast<double>(folds.size());
      fold.labels.push_back(label);
      fold.logits.push_back(static_cast<float>(noise(random)));
      fold.logits.push_back(static_cast<float>(4 * (label - 0.5 + noise(random)) + shift));
    }
    folds.push_back(std::move(fold));
  }
  return folds;
}

FoldOperatingPoint find_point(const FoldDecisions& decisions) {
  return std::get<FoldOperatingPoint>(decisions.operating_point.value());
}

FoldDecisions decide(const std::vector<LabelledLogits>& folds, const DecisionOptions& options = {},
                     std::string* warnings = nullptr) {
  return decide_by_folds(folds, kClasses, options, [&](const Notice& notice) {
    if (warnings != nullptr) *warnings += notice.text;
  });
}

// A sample as its logarithm of the odds of the second class.
struct Sample {
  std::size_t fold = 0;
  double log_odds = 0;
  bool is_ill = false;
};

std::vector<Sample> to_samples(const std::vector<LabelledLogits>& folds) {
  std::vector<Sample> samples;
  for (std::size_t f = 0; f < folds.size(); ++f) {
    for (std::size_t i = 0; i < folds[f].labels.size(); ++i) {
      const auto row = folds[f].row(i);
      samples.push_back(
          {f, static_cast<double>(row[1]) - static_cast<double>(row[0]), folds[f].labels[i] == 1});
    }
  }
  return samples;
}

double probability_of_label(const Sample& sample, double temperature) {
  return 1 / (1 + std::exp((sample.is_ill ? -1 : 1) * sample.log_odds / temperature));
}

// Searches the temperature with the least loss of the samples of all folds but one.
double search_temperature(const std::vector<Sample>& samples, std::size_t left_out) {
  const auto loss = [&](double log_temperature) {
    double sum = 0;
    for (const Sample& sample : samples) {
      if (sample.fold == left_out) continue;
      sum -= std::log(probability_of_label(sample, std::exp(log_temperature)));
    }
    return sum;
  };
  double low = -4, high = 4;
  for (int i = 0; i < 200; ++i) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    (loss(a) < loss(b) ? high : low) = loss(a) < loss(b) ? b : a;
  }
  return std::exp(low);
}

// Computes the expected calibration error in 15 bins, each sample with the temperature of its fold.
double calibration_error(const std::vector<Sample>& samples,
                         const std::vector<double>& temperatures) {
  std::vector<double> gaps(15);
  for (const Sample& sample : samples) {
    const double p = probability_of_label(sample, temperatures[sample.fold]);
    const double confidence = std::max(p, 1 - p);
    const auto bin = static_cast<std::size_t>(std::ceil(confidence * 15)) - 1;
    gaps[bin] += (p >= 0.5 ? 1 : 0) - confidence;
  }
  double sum = 0;
  for (const double gap : gaps) sum += std::abs(gap);
  return sum / static_cast<double>(samples.size());
}

test::PairArea compare_pairs(const std::vector<Sample>& samples) {
  std::vector<double> of_ill, of_well;  // log odds
  for (const Sample& one : samples) (one.is_ill ? of_ill : of_well).push_back(one.log_odds);
  return test::compare_pairs(of_ill, of_well);
}

// Finds the middle below the score of the last ill sample that the sensitivity needs.
double find_threshold(const std::vector<Sample>& samples, std::size_t left_out, double share) {
  std::vector<double> ill, all;
  for (const Sample& sample : samples) {
    if (sample.fold == left_out) continue;
    all.push_back(sample.log_odds);
    if (sample.is_ill) ill.push_back(sample.log_odds);
  }
  std::sort(ill.rbegin(), ill.rend());
  std::sort(all.rbegin(), all.rend());
  const auto needed = static_cast<std::size_t>(std::ceil(share * static_cast<double>(ill.size())));
  const double last = ill[needed - 1];
  const auto next = std::find_if(all.begin(), all.end(), [&](double x) { return x < last; });
  REQUIRE(next != all.end());
  return (last + *next) / 2;
}

constexpr std::size_t kNone = 99;

}  // namespace

TEST_CASE("decide_by_folds: AUC and DeLong's interval of all samples equal those over all pairs") {
  const auto folds = make_folds();
  const FoldDecisions decisions = decide(folds);
  const test::PairArea expected = compare_pairs(to_samples(folds));
  const double half = 1.959963985 * std::sqrt(expected.variance);
  REQUIRE(decisions.auc.has_value());
  CHECK(decisions.auc->area == doctest::Approx(expected.area).epsilon(1e-9));
  CHECK(decisions.auc->interval.low == doctest::Approx(expected.area - half).epsilon(1e-6));
  CHECK(decisions.auc->interval.high ==
        doctest::Approx(std::min(1.0, expected.area + half)).epsilon(1e-6));
  REQUIRE(decisions.curves.has_value());
  REQUIRE(decisions.curves->classes.size() == 1);
  CHECK(decisions.curves->classes[0].name == "ill");
  CHECK(decisions.curves->classes[0].roc_area.area == decisions.auc->area);
  CHECK_FALSE(decisions.operating_point.has_value());
}

TEST_CASE("decide_by_folds: the temperature of the other folds decides about each fold") {
  const auto folds = make_folds();
  const FoldCalibration calibration = decide(folds).calibration.value();
  const std::vector<Sample> samples = to_samples(folds);
  CHECK(calibration.temperature ==
        doctest::Approx(search_temperature(samples, kNone)).epsilon(1e-5));
  REQUIRE(calibration.temperatures.size() == 3);
  std::vector<double> temperatures;
  for (std::size_t fold = 0; fold < 3; ++fold) {
    temperatures.push_back(search_temperature(samples, fold));
    CHECK(calibration.temperatures[fold] == doctest::Approx(temperatures[fold]).epsilon(1e-5));
    CHECK(calibration.temperatures[fold] > 1.2);
  }
  const engine::Reliability &before = calibration.change.before, &after = calibration.change.after;
  CHECK(before.samples == 154);
  CHECK(after.samples == 154);
  CHECK(after.correct == before.correct);
  CHECK(before.expected_calibration_error ==
        doctest::Approx(calibration_error(samples, {1, 1, 1})).epsilon(1e-6));
  CHECK(after.expected_calibration_error ==
        doctest::Approx(calibration_error(samples, temperatures)).epsilon(1e-4));
  CHECK(after.negative_log_likelihood < before.negative_log_likelihood);
  CHECK(before.expected_calibration_error_interval.low <
        before.expected_calibration_error_interval.high);
}

TEST_CASE("decide_by_folds: the labels of a fold do not change its own temperature and threshold") {
  DecisionOptions options;
  options.operating_point = "sensitivity=0.8";
  auto folds = make_folds();
  const FoldDecisions first = decide(folds, options);
  for (std::int32_t& label : folds[1].labels) label = 1 - label;
  const FoldDecisions second = decide(folds, options);
  CHECK(first.calibration->temperatures[1] == second.calibration->temperatures[1]);
  CHECK(find_point(first).fold_log_odds[1] == find_point(second).fold_log_odds[1]);
  for (const std::size_t other : {std::size_t{0}, std::size_t{2}}) {
    CHECK(first.calibration->temperatures[other] != second.calibration->temperatures[other]);
    CHECK(find_point(first).fold_log_odds[other] != find_point(second).fold_log_odds[other]);
  }
}

TEST_CASE("decide_by_folds: the threshold of the other folds decides about each fold") {
  const auto folds = make_folds();
  DecisionOptions options;
  options.operating_point = "sensitivity=0.95";
  const FoldOperatingPoint point = find_point(decide(folds, options));
  const std::vector<Sample> samples = to_samples(folds);
  CHECK(point.positive_class == "ill");
  CHECK(point.positive_index == 1);
  const double of_all = find_threshold(samples, kNone, 0.95);
  CHECK(point.log_odds == doctest::Approx(of_all).epsilon(1e-6));
  REQUIRE(point.fold_log_odds.size() == 3);
  engine::OperatingCounts found, counts;
  const auto add = [](engine::OperatingCounts& sum, const Sample& sample, double threshold) {
    const bool is_called = sample.log_odds >= threshold;
    (sample.is_ill ? (is_called ? sum.true_positives : sum.false_negatives)
                   : (is_called ? sum.false_positives : sum.true_negatives)) += 1;
  };
  std::vector<double> thresholds;
  for (std::size_t fold = 0; fold < 3; ++fold) {
    thresholds.push_back(find_threshold(samples, fold, 0.95));
    CHECK(point.fold_log_odds[fold] == doctest::Approx(thresholds[fold]).epsilon(1e-6));
  }
  for (const Sample& sample : samples) {
    add(found, sample, of_all);
    add(counts, sample, thresholds[sample.fold]);
  }
  CHECK(point.found.sensitivity() >= 0.95);
  CHECK(point.found.true_positives == found.true_positives);
  CHECK(point.found.false_positives == found.false_positives);
  CHECK(point.counts.true_positives == counts.true_positives);
  CHECK(point.counts.false_negatives == counts.false_negatives);
  CHECK(point.counts.true_negatives == counts.true_negatives);
  CHECK(point.counts.false_positives == counts.false_positives);
  const bool is_same = counts.true_positives == found.true_positives &&
                       counts.false_positives == found.false_positives;
  CHECK_FALSE(is_same);
}

TEST_CASE(
    "decide_by_folds: one output or two give equal results, also with the first class as "
    "positive") {
  auto two = make_folds(), one = two;
  for (LabelledLogits& fold : two) {
    for (std::size_t i = 0; i < fold.labels.size(); ++i) {
      fold.logits[2 * i + 1] -= fold.logits[2 * i];
      fold.logits[2 * i] = 0;
    }
  }
  for (std::size_t f = 0; f < two.size(); ++f) {
    one[f].outputs = 1;
    one[f].logits.clear();
    for (std::size_t i = 0; i < two[f].labels.size(); ++i) {
      one[f].logits.push_back(two[f].logits[2 * i + 1]);
    }
  }
  const FoldDecisions a = decide(two), b = decide(one);
  CHECK(a.auc->area == doctest::Approx(b.auc->area));
  CHECK(a.calibration->temperature == doctest::Approx(b.calibration->temperature));
  CHECK(a.calibration->change.after.expected_calibration_error ==
        doctest::Approx(b.calibration->change.after.expected_calibration_error));
  DecisionOptions options;
  options.operating_point = "specificity=0.9";
  options.positive_class = "well";
  const FoldDecisions well = decide(one, options);
  CHECK(find_point(well).positive_index == 0);
  CHECK(find_point(well).positive_class == "well");
  CHECK(find_point(well).found.specificity() >= 0.9);
  CHECK(well.curves->classes.at(0).name == "well");
}

TEST_CASE("decide_by_folds leaves out results that the predictions do not allow with a warning") {
  DecisionOptions options;
  options.operating_point = "sensitivity=0.95";
  std::string warnings;
  SUBCASE("a score that is not finite") {
    auto folds = make_folds();
    folds[2].logits[5] = std::numeric_limits<float>::quiet_NaN();
    const FoldDecisions none = decide(folds, options, &warnings);
    CHECK(contains(warnings, "an output of the run of fold 3 is not a finite number"));
    CHECK_FALSE(none.auc.has_value());
    CHECK_FALSE(none.calibration.has_value());
    CHECK_FALSE(none.curves.has_value());
    CHECK_FALSE(none.operating_point.has_value());
  }
  SUBCASE("a single class") {
    auto folds = make_folds();
    for (LabelledLogits& fold : folds) std::fill(fold.labels.begin(), fold.labels.end(), 0);
    const FoldDecisions some = decide(folds, options, &warnings);
    CHECK(contains(warnings, "all samples are of one class"));
    CHECK(some.calibration.has_value());
    CHECK_FALSE(some.auc.has_value());
    CHECK_FALSE(some.curves.has_value());
    CHECK_FALSE(some.operating_point.has_value());
  }
  SUBCASE("all samples of a class in one fold") {
    auto folds = make_folds();
    for (const std::size_t fold : {std::size_t{0}, std::size_t{2}}) {
      std::fill(folds[fold].labels.begin(), folds[fold].labels.end(), 0);
    }
    const FoldDecisions some = decide(folds, options, &warnings);
    CHECK(contains(warnings, "folds other than fold 2 are 0 of the class ill and 93 others"));
    CHECK(some.auc.has_value());
    CHECK(some.curves.has_value());
    CHECK_FALSE(some.operating_point.has_value());
  }
}

TEST_CASE(
    "decide_by_folds: costs of classes decide each sample at the temperature of the other folds") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "costs.csv").string();
  std::ofstream(file) << "true,well,ill\nwell,0,1\nill,6,0\n";
  const auto folds = make_folds();
  const std::vector<Sample> samples = to_samples(folds);
  DecisionOptions options;
  options.operating_point = "cost=" + file;
  CHECK_NOTHROW(check_fold_options(options, LossKind::kSoftmaxCrossEntropy, 2, kClasses));
  const FoldDecisions decisions = decide(folds, options);
  const auto report = std::get<CostReport>(decisions.operating_point.value());
  std::vector<double> temperatures;
  for (std::size_t fold = 0; fold < folds.size(); ++fold) {
    temperatures.push_back(search_temperature(samples, fold));
  }
  std::int64_t misses = 0, alarms = 0, misses_at_one = 0;
  for (const Sample& one : samples) {
    // Ill is decided for where 6 p > 1 - p.
    const auto is_ill = [&](double temperature) {
      return 6 * std::exp(one.log_odds / temperature) > 1;
    };
    const bool decided = is_ill(temperatures[one.fold]);
    misses += one.is_ill && !decided ? 1 : 0;
    alarms += !one.is_ill && decided ? 1 : 0;
    misses_at_one += one.is_ill && !is_ill(1) ? 1 : 0;
  }
  CHECK(misses != misses_at_one);
  CHECK(report.least_cost.counts.matrix->at(1).at(0) == misses);
  CHECK(report.least_cost.counts.matrix->at(0).at(1) == alarms);
  const auto all = static_cast<double>(samples.size());
  CHECK(report.least_cost.cost ==
        doctest::Approx((6 * static_cast<double>(misses) + static_cast<double>(alarms)) / all));
  const auto json = to_json(decisions);
  CHECK(json.at("operating_point").at("split") == "out-of-fold");
  CHECK(contains(render_text(show_fold_decisions(decisions, false)), "out-of-fold: decision"));
  std::ofstream(file) << "true,well\nwell,0\n";
  CHECK_THROWS_AS(check_fold_options(options, LossKind::kSoftmaxCrossEntropy, 2, kClasses),
                  DataError);
}

TEST_CASE("draw_label_curves draws a curve for each label that some but not all images have") {
  std::string warnings;
  const auto warn = [&](const Notice& notice) { warnings += notice.text; };
  const engine::BinaryScores some{{3, 1, 2, -1}, {true, false, false, true}};
  const engine::BinaryScores every{{3, 1}, {true, true}};
  const FoldDecisions decisions = draw_label_curves({every, some}, {"x", "y"}, warn);
  CHECK(warnings.empty());
  REQUIRE(decisions.curves.has_value());
  REQUIRE(decisions.curves->classes.size() == 1);
  CHECK(decisions.curves->classes[0].name == "y");
  CHECK(decisions.curves->classes[0].roc_area.area == doctest::Approx(0.5));
  CHECK(decisions.curves->split == "out-of-fold");
  CHECK_FALSE(draw_label_curves({every}, {"x"}, warn).curves.has_value());
  CHECK(contains(warnings, "no label has both images with it and without it"));
  warnings.clear();
  const engine::BinaryScores broken{{std::nan(""), 1}, {true, false}};
  CHECK_FALSE(draw_label_curves({some, broken}, {"x", "y"}, warn).curves.has_value());
  CHECK(contains(warnings, "an output for the label y is not a finite number"));
  warnings.clear();
  CHECK_FALSE(draw_label_curves({}, {"x"}, warn).curves.has_value());
  CHECK(contains(warnings, "too many predictions"));
}

TEST_CASE("check_fold_options: options that the model cannot follow are an error before training") {
  const auto check = [](const std::string& point, const std::string& positive, LossKind loss,
                        const std::vector<std::string>& classes) {
    DecisionOptions options;
    options.operating_point = point;
    options.positive_class = positive;
    const std::int64_t outputs =
        loss == LossKind::kBinaryCrossEntropy ? 1 : static_cast<std::int64_t>(classes.size());
    check_fold_options(options, loss, outputs, classes);
  };
  constexpr LossKind kSoftmax = LossKind::kSoftmaxCrossEntropy;
  CHECK_NOTHROW(check("", "", LossKind::kMeanSquaredError, {}));
  CHECK_NOTHROW(check("cost=1:5", "", kSoftmax, kClasses));
  CHECK_NOTHROW(check("cost=1:5", "", LossKind::kBinaryCrossEntropy, kClasses));
  CHECK_NOTHROW(check("cost=1:5", "c", kSoftmax, {"a", "b", "c"}));
  CHECK_THROWS_WITH_AS(check("sensitivity=2", "", kSoftmax, kClasses),
                       doctest::Contains("'sensitivity=2' is not a criterion"), ConfigError);
  CHECK_THROWS_WITH_AS(check("sensitivity=0.9", "", kSoftmax, {"a", "b", "c"}),
                       doctest::Contains("--operating-point needs --positive-class"), ConfigError);
  CHECK_THROWS_WITH_AS(check("", "il", kSoftmax, kClasses), doctest::Contains("--positive-class"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(check("sensitivity=0.9", "", LossKind::kMeanSquaredError, kClasses),
                       doctest::Contains("mean_squared_error gives numbers"), ConfigError);
}

TEST_CASE("decide_by_folds keeps a bounded number of points of a curve, and the last one") {
  std::vector<LabelledLogits> folds(2);
  for (std::size_t f = 0; f < 2; ++f) {
    folds[f].outputs = 1;
    for (int i = 0; i < 3000; ++i) {
      folds[f].logits.push_back(static_cast<float>(i) + 0.5F * static_cast<float>(f));
      folds[f].labels.push_back(i % 7 > 2 ? 1 : 0);
    }
  }
  const FoldDecisions decisions = decide(folds);
  const auto json = to_json(decisions);
  const auto& curve = json.at("curves").at("classes").at(0).at("roc");
  CHECK(curve.size() > 500);
  CHECK(curve.size() <= 1001);
  CHECK(curve.back().at("false_positive_rate") == 1);
  CHECK(json.at("calibration").at("fold_temperatures").size() == 2);
  CHECK_FALSE(json.contains("operating_point"));
}

}  // namespace trainer::results::fold_decisions_test
