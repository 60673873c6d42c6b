// Evaluations of samples that have weights.
#include <doctest/doctest.h>

#include <cmath>

#include "base/threads/thread_team.h"
#include "cluster/local_group.h"
#include "engine/evaluate_model.h"

namespace trainer::engine::weighted_evaluation_test {
namespace {

constexpr std::int64_t kSamples = 43, kClasses = 3, kPixels = 36;

// Weights from 0 to 3.5, or none.
class Weighed final : public data::Dataset {
 public:
  explicit Weighed(bool has_weights) {
    spec_.image_shape = {6, 6, 1};
    spec_.in_memory = true;
    spec_.has_weights = has_weights;
  }
  std::int64_t size() const override { return kSamples; }
  const data::DatasetSpec& spec() const override { return spec_; }
  using data::Dataset::get;
  void get(std::int64_t index, std::int64_t, void* image, void* label) const override {
    for (std::int64_t i = 0; i < kPixels; ++i) {
      static_cast<std::uint8_t*>(image)[i] =
          static_cast<std::uint8_t>((index * 37 + i * (index + 11)) % 251);
    }
    *static_cast<std::int32_t*>(label) = label_at(index);
  }
  std::int32_t label_at(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % kClasses);
  }
  float weight_at(std::int64_t index) const override {
    return 0.5f * static_cast<float>(index * 5 % 8);
  }
  std::string fingerprint() const override { return "weighed"; }

 private:
  data::DatasetSpec spec_;
};

config::Config config_with(std::int64_t replicas, bool together = true) {
  return test::make_evaluation_config("{layers: [flatten, dense: 3], label_smoothing: 0.1}",
                                      replicas, together);
}

Metrics evaluated(const config::Config& config, const data::Dataset& dataset,
                  cluster::Communicator* workers = nullptr, std::vector<float>* logits = nullptr) {
  return test::evaluate_model(config, test::sample({6, 6, 1}, kClasses), dataset, workers, logits);
}

// The loss of the logits, smoothed, in double precision.
double sum_loss(const float* logits, std::int64_t label) {
  double sum = 0, loss = 0;
  for (std::int64_t c = 0; c < kClasses; ++c) sum += std::exp(static_cast<double>(logits[c]));
  for (std::int64_t c = 0; c < kClasses; ++c) {
    const double target = (c == label ? 0.9 : 0.0) + 0.1 / kClasses;
    loss += target * (std::log(sum) - static_cast<double>(logits[c]));
  }
  return loss;
}

}  // namespace

TEST_CASE("evaluate: sample weights give the weighted loss and other metrics without weights") {
  const Weighed weighed(true), plain(false);
  std::vector<float> logits;
  const Metrics metrics = evaluated(config_with(1), weighed, nullptr, &logits);
  const Metrics unweighed = evaluated(config_with(1), plain);
  double sum = 0, plain_sum = 0;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const double loss = sum_loss(logits.data() + i * kClasses, weighed.label_at(i));
    sum += static_cast<double>(weighed.weight_at(i)) * loss;
    plain_sum += loss;
  }
  CHECK(metrics.loss == doctest::Approx(sum / kSamples).epsilon(1e-6));
  CHECK(unweighed.loss == doctest::Approx(plain_sum / kSamples).epsilon(1e-6));
  CHECK(metrics.count == kSamples);
  CHECK(metrics.correct == unweighed.correct);
  CHECK(metrics.confusion == unweighed.confusion);
  CHECK(metrics.auc == unweighed.auc);
}

TEST_CASE(
    "evaluate: sample weights give the same loss for any number of replicas and workers bit by "
    "bit") {
  const Weighed weighed(true);
  const double loss = evaluated(config_with(1), weighed).loss;
  for (const std::int64_t replicas : {2, 4}) {
    CHECK(evaluated(config_with(replicas), weighed).loss == loss);
  }
  for (const bool together : {true, false}) {
    CAPTURE(together);
    auto workers = cluster::make_local_group(2);
    std::vector<double> losses(2);
    ThreadTeam team(2);
    team.run([&](int worker) {
      const auto w = static_cast<std::size_t>(worker);
      losses[w] = evaluated(config_with(2, together), weighed, workers[w].get()).loss;
    });
    CHECK(losses[0] == loss);
    CHECK(losses[1] == loss);
  }
}

}  // namespace trainer::engine::weighted_evaluation_test
