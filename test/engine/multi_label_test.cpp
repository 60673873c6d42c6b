// Metrics of samples with several labels, and the thresholds of labels.
#include "engine/metrics/multi_label.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/threads/thread_team.h"
#include "cluster/local_group.h"
#include "engine/evaluate_model.h"
#include "engine/fixture_cases.h"
#include "engine/metrics/label_thresholds.h"

namespace trainer::engine::multi_label_test {
namespace {

const float kUnknown = std::nanf("");

// Reads a list of rows; null is NaN.
std::vector<float> read_rows(const nlohmann::json& rows) {
  std::vector<float> numbers;
  for (const auto& row : rows) {
    for (const auto& value : row)
      numbers.push_back(value.is_null() ? kUnknown : value.get<float>());
  }
  return numbers;
}

constexpr std::int64_t kSamples = 43, kLabels = 5, kPixels = 36;

// Every third target but those of the first label is unknown.
class Labelled final : public data::Dataset {
 public:
  Labelled() {
    spec_.image_shape = {6, 6, 1};
    spec_.in_memory = true;
    spec_.label_kind = data::LabelKind::kMultiLabel;
    spec_.label_width = kLabels;
    for (std::int64_t i = 0; i < kSamples * kLabels; ++i) {
      const bool is_known = i % kLabels == 0 || i % 3 > 0;
      targets_.push_back(!is_known ? kUnknown : (i * i % 7) < 3 ? 1.0f : 0.0f);
    }
  }
  std::int64_t size() const override { return kSamples; }
  const data::DatasetSpec& spec() const override { return spec_; }
  using data::Dataset::get;
  void get(std::int64_t index, std::int64_t, void* image, void* label) const override {
    for (std::int64_t i = 0; i < kPixels; ++i) {
      static_cast<std::uint8_t*>(image)[i] =
          static_cast<std::uint8_t>((index * 37 + i * (index + 11)) % 251);
    }
    std::copy_n(targets_.begin() + index * kLabels, kLabels, static_cast<float*>(label));
  }
  std::string fingerprint() const override { return "labelled"; }
  const std::vector<float>& targets() const { return targets_; }

 private:
  data::DatasetSpec spec_;
  std::vector<float> targets_;
};

config::Config make_config(std::int64_t replicas, bool together = true) {
  return test::make_evaluation_config("{layers: [flatten, dense: 5], loss: binary_cross_entropy}",
                                      replicas, together);
}

Metrics evaluate_labels(const config::Config& config, const data::Dataset& dataset,
                        cluster::Communicator* workers = nullptr,
                        std::vector<float>* logits = nullptr) {
  model::SampleSpec sample = test::sample({6, 6, 1}, kLabels);
  sample.label_is_index = false;
  return test::evaluate_model(config, sample, dataset, workers, logits);
}

void check_same(const MultiLabelMetrics& one, const MultiLabelMetrics& other) {
  CHECK(one.named() == other.named());
  CHECK(one.samples == other.samples);
  CHECK(one.exact == other.exact);
  REQUIRE(one.labels.size() == other.labels.size());
  for (std::size_t i = 0; i < one.labels.size(); ++i) {
    CHECK(one.labels[i].positives == other.labels[i].positives);
    CHECK(one.labels[i].negatives == other.labels[i].negatives);
    CHECK(one.labels[i].true_positives == other.labels[i].true_positives);
    CHECK(one.labels[i].false_positives == other.labels[i].false_positives);
    CHECK(one.labels[i].auc == other.labels[i].auc);
    CHECK(one.labels[i].average_precision == other.labels[i].average_precision);
  }
}

}  // namespace

TEST_CASE("MultiLabelAccumulator: results equal values by hand, with unknown labels left out") {
  MultiLabelAccumulator metrics(2, 100);
  // Label 0: positives at 2 and -1, negatives at 1 and -2, one unknown. Label 1: equal scores.
  const float logits[] = {2, 1, 1, 1, -1, 0, -2, -3, 9, 1};
  const float targets[] = {1, 1, 0, 0, 1, kUnknown, 0, 0, kUnknown, kUnknown};
  metrics.add(std::span(logits, 4), std::span(targets, 4));
  metrics.add(std::span(logits).subspan(4), std::span(targets).subspan(4));
  const MultiLabelMetrics result = metrics.result();
  const LabelResult& first = result.labels[0];
  CHECK(first.positives == 2);
  CHECK(first.negatives == 2);
  CHECK(first.true_positives == 1);
  CHECK(first.false_positives == 1);
  CHECK(first.auc == 0.75);
  CHECK(first.average_precision == doctest::Approx((1 + 2.0 / 3) / 2));
  CHECK(first.f1() == 0.5);
  const LabelResult& second = result.labels[1];
  CHECK(second.auc == 0.75);  // 0.5 against the equal one, 1 against the other
  CHECK(second.average_precision == 0.5);
  CHECK(second.true_positives == 1);
  CHECK(second.false_positives == 1);
  CHECK(result.samples == 4);  // the last one has no known label
  CHECK(result.exact == 2);    // the first and the fourth
  CHECK(result.subset_accuracy() == 0.5);
  CHECK(result.hamming_loss() == doctest::Approx(3.0 / 7));
  CHECK(result.f1_macro() == doctest::Approx((0.5 + 2.0 / 3) / 2));
  CHECK(result.f1_micro() == doctest::Approx(4.0 / 7));
}

TEST_CASE(
    "MultiLabelAccumulator: labels without positives, scores of NaN or too many scores have no "
    "AUC") {
  const float logits[] = {1, kUnknown, -1, 2}, targets[] = {0, 1, 0, 0};
  MultiLabelAccumulator metrics(2, 4);
  metrics.add(logits, targets);
  const MultiLabelMetrics result = metrics.result();
  CHECK(std::isnan(result.labels[0].auc));
  CHECK(std::isnan(result.labels[0].average_precision));
  CHECK(std::isnan(result.labels[1].auc));
  CHECK(std::isnan(result.auc()));
  CHECK(result.labels[0].f1() == 0);
  CHECK(result.named().size() == 4);
  MultiLabelAccumulator few(1, 3);
  const float four[] = {1, -1, 2, -2}, of_four[] = {1, 0, 1, 0};
  few.add(four, of_four);
  CHECK(std::isnan(few.result().auc()));
  CHECK(few.result().subset_accuracy() == 1);
  MultiLabelAccumulator strict(1, 100, {1.5});
  strict.add(four, of_four);
  CHECK(strict.result().labels[0].true_positives == 1);
  CHECK(strict.result().auc() == 1);
}

// test/keras/multi_label.json: what scikit-learn computes, in double.
TEST_CASE("MultiLabelAccumulator: values equal scikit-learn's") {
  for (const auto& example : test::read_fixture_cases("multi_label.json")) {
    const std::string name = example["name"];
    CAPTURE(name);
    const std::int64_t labels = example["labels"];
    MultiLabelAccumulator metrics(labels, 1'000'000);
    metrics.add(read_rows(example["logits"]), read_rows(example["targets"]));
    const MultiLabelMetrics result = metrics.result();
    for (const auto& [metric, value] : result.named()) {
      CAPTURE(metric);
      CHECK(value == doctest::Approx(example[std::string(metric)].get<double>()).epsilon(1e-12));
    }
    CHECK(result.named().size() == 6);
    for (std::size_t i = 0; i < result.labels.size(); ++i) {
      const auto& expected = example["per_label"][i];
      CHECK(result.labels[i].auc == doctest::Approx(expected["auc"].get<double>()).epsilon(1e-12));
      CHECK(result.labels[i].average_precision ==
            doctest::Approx(expected["average_precision"].get<double>()).epsilon(1e-12));
      CHECK(result.labels[i].precision() == doctest::Approx(expected["precision"].get<double>()));
      CHECK(result.labels[i].recall() == doctest::Approx(expected["recall"].get<double>()));
    }
  }
}

TEST_CASE("evaluate: several labels give the masked loss and metrics of their logits") {
  const Labelled dataset;
  std::vector<float> logits;
  const Metrics metrics = evaluate_labels(make_config(1), dataset, nullptr, &logits);
  double loss = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto t = static_cast<double>(dataset.targets()[i]);
    const auto x = static_cast<double>(logits[i]);
    if (!std::isnan(t)) loss += std::log1p(std::exp(-x)) + (1 - t) * x;
  }
  // The mean over all labels of all samples, of which unknown ones have no loss.
  CHECK(metrics.loss == doctest::Approx(loss / (kSamples * kLabels)).epsilon(1e-6));
  CHECK(metrics.count == kSamples);
  CHECK(metrics.classes == 0);
  CHECK(std::isnan(metrics.accuracy));
  MultiLabelAccumulator expected(kLabels, 1'000'000);
  expected.add(logits, dataset.targets());
  check_same(metrics.multi_label, expected.result());
  CHECK(metrics.multi_label.exact > 0);
  CHECK(metrics.multi_label.exact < kSamples);
}

TEST_CASE(
    "evaluate: metrics of several labels are the same on any number of replicas and workers") {
  const Labelled dataset;
  const Metrics one = evaluate_labels(make_config(1), dataset);
  for (const std::int64_t replicas : {2, 4}) {
    const Metrics several = evaluate_labels(make_config(replicas), dataset);
    CHECK(several.loss == one.loss);
    check_same(several.multi_label, one.multi_label);
  }
  for (const bool together : {true, false}) {
    CAPTURE(together);
    auto workers = cluster::make_local_group(2);
    std::vector<Metrics> results(2);
    ThreadTeam team(2);
    team.run([&](int worker) {
      const auto w = static_cast<std::size_t>(worker);
      results[w] = evaluate_labels(make_config(2, together), dataset, workers[w].get());
    });
    for (const Metrics& result : results) {
      CHECK(result.loss == one.loss);
      check_same(result.multi_label, one.multi_label);
    }
  }
}

TEST_CASE("find_threshold returns the largest F1, and meets the goals of an operating point") {
  const auto goal = [](const char* text) { return *parse_threshold_goal(text); };
  const float scores[] = {3, 2, 1, 0, -1, -2, 5};
  const float targets[] = {1, 0, 1, 1, 0, 0, kUnknown};
  // F1 above 0 is 2 * 3 / (3 + 4).
  CHECK(find_threshold(scores, targets, {}) == -0.5);
  CHECK(find_threshold(scores, targets, goal("sensitivity=0.3")) == 2.5);
  CHECK(find_threshold(scores, targets, goal("sensitivity=0.6")) == 0.5);
  CHECK(find_threshold(scores, targets, goal("sensitivity=1")) == -0.5);
  CHECK(find_threshold(scores, targets, goal("specificity=1")) == 2.5);
  CHECK(find_threshold(scores, targets, goal("specificity=0.6")) == -0.5);
  // Above 2.5, two positives are missed; above -0.5, one negative is called positive.
  CHECK(find_threshold(scores, targets, goal("cost=3:1")) == 2.5);
  const float first_lacks[] = {0, 1, 1, 1, 1, 1, kUnknown};
  // No sample is above the largest score.
  CHECK(find_threshold(scores, first_lacks, goal("specificity=1")) == 3);
  CHECK(find_threshold(scores, targets, goal("cost=1:1")) == -0.5);
  // All samples are called positive, the one with the lowest score too.
  const float last_is_positive[] = {0, 0, 0, 0, 0, 1, kUnknown};
  CHECK(find_threshold(scores, last_is_positive, goal("sensitivity=1")) == -3);
  const float equal[] = {1, 1, 1};
  const float of_equal[] = {1, 0, 1};
  CHECK(find_threshold(equal, of_equal, {}) == 0);
  const float none[] = {0, kUnknown, 0};
  CHECK(find_threshold(equal, none, {}) == std::nullopt);
  const float bad[] = {1, kUnknown, 0};
  CHECK(find_threshold(bad, of_equal, {}) == std::nullopt);
}

TEST_CASE("parse_threshold_goal accepts f1 and the goals of an operating point, and nothing else") {
  for (const char* text :
       {"f1", "sensitivity=0.95", "sensitivity=1", "specificity=0.9", "cost=1:20"}) {
    CHECK(to_string(*parse_threshold_goal(text)) == text);
  }
  CHECK(parse_threshold_goal("sensitivity=1")->criterion->share == 1.0);
  for (const char* text :
       {"", "F1", "sensitivity", "sensitivity=", "sensitivity=0", "f2", "sensitivity=1.01",
        "sensitivity=nan", "sensitivity=0.9x", "cost=1", "cost=0:1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_threshold_goal(text));
  }
}

}  // namespace trainer::engine::multi_label_test
