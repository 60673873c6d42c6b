#include "train/feature_plan.h"

#include <doctest/doctest.h>

#include "support.h"

namespace trainer::train::feature_plan_test {
namespace {

using namespace support;
using config::CacheFeatures;
using Storage = FeaturePlan::Storage;

struct Subject {
  explicit Subject(const std::string& freeze)
      : config(trainer::test::build_config("{backbone: {name: mobilenet_v2, alpha: 0.35" + freeze +
                                           "}, head: [flatten, dense: 3]}")),
        engine(
            model::build_model(config.model, config.data, trainer::test::sample({32, 32, 3}, 3), 1),
            config, open_test_backends(1), engine::Use::kTrain) {}

  FeaturePlan plan(CacheFeatures choice, FeatureSharing sharing = FeatureSharing::kAlone,
                   double epochs = 5) {
    config.train.cache_features = choice;
    return plan_features(config, engine, splits, epochs, sharing, stage);
  }

  config::Config config;
  engine::Engine engine;
  std::vector<FeatureSplit> splits{{Split::kTrain, 100, false}, {Split::kTest, 20, false}};
  std::size_t stage = 0;
};

}  // namespace

TEST_CASE(
    "feature plan: features are stored where the config decides, with auto in memory if they fit") {
  Subject subject(", freeze: all");
  const FeaturePlan automatic = subject.plan(CacheFeatures::kAuto);
  CHECK(automatic.storage == Storage::kMemory);
  CHECK(automatic.splits == std::vector<Split>{Split::kTrain, Split::kTest});
  CHECK(automatic.bytes == 120 * 1280 * 4);
  CHECK(describe(automatic).find("kept in memory from the first epoch on: train, test, 0 MiB") ==
        0);
  CHECK(subject.plan(CacheFeatures::kDisk).storage == Storage::kDisk);
  CHECK(subject.plan(CacheFeatures::kOff).storage == Storage::kNone);
  CHECK(subject.plan(CacheFeatures::kAuto, FeatureSharing::kAlone, 1).storage == Storage::kNone);
  CHECK(subject.plan(CacheFeatures::kDisk, FeatureSharing::kAlone, 1).storage == Storage::kDisk);
}

TEST_CASE("feature plan: runs share files, also for one epoch, unless the config asks for memory") {
  Subject subject(", freeze: all");
  const FeaturePlan plan = subject.plan(CacheFeatures::kAuto, FeatureSharing::kRuns, 1);
  CHECK(plan.storage == Storage::kDisk);
  CHECK(describe(plan).find("kept in files that other runs share from the first epoch on") == 0);
  CHECK(subject.plan(CacheFeatures::kDisk, FeatureSharing::kRuns).storage == Storage::kDisk);
  CHECK(subject.plan(CacheFeatures::kMemory, FeatureSharing::kRuns).storage == Storage::kMemory);
  CHECK(subject.plan(CacheFeatures::kOff, FeatureSharing::kRuns).storage == Storage::kNone);
}

TEST_CASE(
    "feature plan: files are shared by processes of one machine, and not kept by those of "
    "several") {
  Subject subject(", freeze: all");
  CHECK(subject.plan(CacheFeatures::kAuto, FeatureSharing::kOneMachine).storage == Storage::kDisk);
  CHECK_THROWS_AS(subject.plan(CacheFeatures::kMemory, FeatureSharing::kOneMachine), ConfigError);
  CHECK(subject.plan(CacheFeatures::kAuto, FeatureSharing::kSeveralMachines).storage ==
        Storage::kNone);
  CHECK_THROWS_AS(subject.plan(CacheFeatures::kDisk, FeatureSharing::kSeveralMachines),
                  ConfigError);
  const FeaturePlan servers = subject.plan(CacheFeatures::kDisk, FeatureSharing::kServers);
  CHECK(servers.storage == Storage::kNone);
  CHECK_FALSE(servers.reason_matters);
}

TEST_CASE("feature plan: splits of random images have no features, nor any without frozen layers") {
  Subject subject(", freeze: all");
  subject.splits[0].random = true;
  const FeaturePlan plan = subject.plan(CacheFeatures::kAuto);
  CHECK(plan.splits == std::vector<Split>{Split::kTest});
  CHECK(plan.reason == "the images of the train split change at random");
  CHECK_THROWS_AS(subject.plan(CacheFeatures::kMemory), ConfigError);
  subject.stage = 1;  // the config demands them of its first stage
  CHECK_NOTHROW(subject.plan(CacheFeatures::kMemory));

  subject.stage = 0;
  subject.splits[0].random = false;
  subject.config.data.drop_remainder = true;
  CHECK(subject.plan(CacheFeatures::kAuto).splits ==
        std::vector<Split>{Split::kTrain, Split::kTest});
  subject.config.data.shuffle = false;
  const FeaturePlan in_order = subject.plan(CacheFeatures::kAuto);
  CHECK(in_order.splits == std::vector<Split>{Split::kTest});
  CHECK(in_order.reason.find("data.drop_remainder leaves the same training samples out") !=
        std::string::npos);
  CHECK_THROWS_AS(subject.plan(CacheFeatures::kMemory), ConfigError);

  Subject trained("");
  CHECK(trained.plan(CacheFeatures::kAuto).storage == Storage::kNone);
  CHECK_THROWS_AS(trained.plan(CacheFeatures::kMemory), ConfigError);
}

}  // namespace trainer::train::feature_plan_test
