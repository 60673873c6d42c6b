#include "train/schedule/stages.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "support/model.h"

namespace trainer::train {
namespace {

config::Config staged(const std::string& unfreeze, const std::string& rest = "") {
  config::Config config = trainer::test::build_config(
      "{backbone: {name: mobilenet_v2, alpha: 0.35, freeze: all, unfreeze: [" + unfreeze +
          "]}, head: [global_average_pool, dense: 3]}",
      rest);
  config.train.batch_size = 4;
  config.train.epochs = 4;
  return config;
}

// 5 steps per epoch.
TrainingPlan plan_epochs(const config::Config& config) { return plan_steps(config, 20); }

const char* const kTwo =
    "{at: 3 steps, freeze: '[:-3]', learning_rate_multiplier: 0.5}, "
    "{at: 2 epochs, freeze: none, learning_rate_multiplier: 0.125}";

}  // namespace

TEST_CASE("stages: a stage is a function of the step") {
  const config::Config config = staged(kTwo);
  const Stages stages(config, plan_epochs(config));
  CHECK(stages.count() == 3);
  CHECK(stages.first_steps() == std::vector<std::int64_t>{0, 3, 10});
  for (const auto& [step, stage] : {std::pair{0, 0}, {2, 0}, {3, 1}, {9, 1}, {10, 2}, {1000, 2}}) {
    CHECK(stages.at(step) == static_cast<std::size_t>(stage));
  }
  // After three updates the second stage has not begun.
  CHECK(stages.after(0) == 0);
  CHECK(stages.after(3) == 0);
  CHECK(stages.after(4) == 1);
}

TEST_CASE("stages: the error of entries out of order has the key of the entry") {
  const config::Config config = staged("{at: 2 epochs, freeze: none}, {at: 10 steps, freeze: all}");
  CHECK_THROWS_WITH_AS(Stages(config, plan_epochs(config)),
                       doctest::Contains("model.backbone.unfreeze[1].at: 10 steps is step 10, not "
                                         "after step 10 of the entry before"),
                       ConfigError);
}

TEST_CASE("stages: learning_rate_multiplier of an entry applies from its step on") {
  const std::string constant = "optimizer: {sgd: {learning_rate: 0.8}}\n";
  const config::Config config = staged(kTwo, constant);
  const optim::LearningRate rate = staged_learning_rate(config, plan_epochs(config));
  CHECK(rate(2) == doctest::Approx(0.8));
  CHECK(rate(3) == doctest::Approx(0.4));
  CHECK(rate(9) == doctest::Approx(0.4));
  CHECK(rate(10) == doctest::Approx(0.1));
}

TEST_CASE(
    "stages: each has its frozen layers, and each parameter the step from which it is trained") {
  const config::Config config = staged(kTwo);
  const Stages stages(config, plan_epochs(config));
  const auto models =
      stage_models(config, trainer::test::sample({32, 32, 3}, 3), stages.first_steps());
  REQUIRE(models.size() == 3);
  const auto parameter = [&](std::size_t stage, const std::string& name) {
    for (const graph::Value& value : models[stage].values) {
      if (value.name == name) return value;
    }
    FAIL("no " << name);
    return graph::Value{};
  };
  CHECK(parameter(0, "dense/kernel").updates_before == 0);
  CHECK(parameter(2, "dense/kernel").updates_before == 0);
  CHECK(parameter(1, "Conv_1/kernel").updates_before == 3);
  CHECK(parameter(2, "Conv_1/kernel").updates_before == 3);
  CHECK(parameter(2, "Conv1/kernel").updates_before == 10);
  const auto is_trained = [&](std::size_t stage, const std::string& layer) {
    for (const graph::LayerInfo& info : models[stage].layers) {
      if (info.name == layer) return info.trainable;
    }
    FAIL("no " << layer);
    return false;
  };
  CHECK_FALSE(is_trained(0, "Conv_1"));
  CHECK(is_trained(1, "Conv_1"));
  CHECK_FALSE(is_trained(1, "Conv1"));
  CHECK(is_trained(2, "Conv1"));
  CHECK(stage_config(config, 2).model.backbone->freeze.kind == config::Freeze::Kind::kNone);
}

TEST_CASE(
    "stages: the error of an entry with layers that the model lacks has the key of the entry") {
  const config::Config config = staged("{at: 3 steps, freeze: [no_such_layer]}");
  CHECK_THROWS_WITH_AS(stage_models(config, trainer::test::sample({32, 32, 3}, 3), {0, 3}),
                       doctest::Contains("model.backbone.unfreeze[0].freeze"), ConfigError);
}

}  // namespace trainer::train
