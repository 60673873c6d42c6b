#include "config/derived.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "config/support.h"

namespace trainer::config {
namespace {

Config with(const std::string& sections) { return parse(kModel + kData + sections).config; }

TEST_CASE("with_replicas keeps the global batch for another number of replicas") {
  const Config two = with(
      "train: {epochs: 1, batch_size: 6}\nevaluate: {batch_size: 4}\n"
      "parallel: {replicas: 2, lanes: 3, lr_scaling: linear, gpus: [0, 2]}\n");
  const Config three = with_replicas(two, 3);
  CHECK(three.train.batch_size == 4);
  CHECK(three.parallel.replicas == 3);
  CHECK(three.parallel.gpus.indices == std::vector<std::int64_t>{0, 2, 0});
  CHECK(three.parallel.lr_scaling == Parallel::LrScaling::kNone);
  CHECK(!three.parallel.lanes);
  CHECK(!three.evaluate.batch_size);  // 8 samples are not three times the same number
  CHECK(with_replicas(two, 4).evaluate.batch_size == 2);
  CHECK(with_replicas(two, 1).train.batch_size == 12);
  CHECK_THROWS_WITH_AS(with_replicas(two, 5), doctest::Contains("global batch of 12"), ConfigError);
}

TEST_CASE("with_replicas does not scale ramp_up by the number of replicas") {
  const Config config = with(kTrain + "schedule: {ramp_up: {scale: linear}}\n");
  const Config two = with_replicas(config, 2);
  CHECK(std::get<RampUpSchedule>(two.schedule.kind).scale == RampUpSchedule::Scale::kNone);
}

TEST_CASE("common_config leaves out run.dir and parallel.threads") {
  const Config one = with(kTrain);
  Config two = one;
  two.run.dir = "elsewhere";
  two.parallel.threads = 7;
  CHECK(common_config(one) == common_config(two));
  two.seed = one.seed + 1;
  CHECK(common_config(one) != common_config(two));
}

TEST_CASE("default_key: the strides of a pooling layer are its pool_size by default") {
  CHECK(default_key("model.layers[2].max_pool.strides") == "model.layers[2].max_pool.pool_size");
  CHECK(default_key("model.head[0].average_pool.strides") ==
        "model.head[0].average_pool.pool_size");
  CHECK(default_key("model.layers[2].conv.strides").empty());
  CHECK(default_key("model.layers[2].max_pool.pool_size").empty());
  CHECK(default_key("model.layers[2].max_pool").empty());
  CHECK(default_key("no.such.key").empty());
}

TEST_CASE(
    "names_metric is true for the metric of run.best, early_stop, stop_at and reduce_on_plateau") {
  const auto names = [](const std::string& sections) {
    const std::string data = "data: {format: digits, path: d, validation_split: 0.5}\n";
    return names_metric(parse(kModel + data + sections).config, "auc");
  };
  const std::string train = "train: {epochs: 1, batch_size: 6";
  const std::string plateau = train + "}\nschedule: {reduce_on_plateau: {metric: validation/";
  CHECK(!names(train + "}\n"));
  CHECK(!names(plateau + "loss}}\n"));
  CHECK(names(plateau + "auc}}\n"));
  CHECK(names(train + "}\nrun: {best: validation/auc}\n"));
  CHECK(!names(train + "}\nrun: {best: validation/loss}\n"));
  CHECK(names(train + ", early_stop: {metric: validation/auc}}\n"));
  CHECK(!names(train + ", early_stop: {metric: validation/loss}}\n"));
  CHECK(names(train + ", stop_at: {metric: validation/auc, value: 0.5}}\n"));
  CHECK(!names(train + ", stop_at: {metric: validation/accuracy, value: 0.5}}\n"));
}

TEST_CASE("leaves of a section are the keys below its name") {
  const auto all = leaves(with(kTrain), "evaluate");
  REQUIRE(all.size() == 5);
  for (const auto& [key, value] : all) CHECK(key.starts_with("evaluate."));
  CHECK(leaves(with(kTrain), "eval").empty());
}

}  // namespace
}  // namespace trainer::config
