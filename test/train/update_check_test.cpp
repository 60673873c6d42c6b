#include "train/loop/update_check.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/contains.h"
#include "train/support.h"

namespace trainer::train::update_check_test {
namespace {

using namespace support;
using trainer::test::contains;

// No unit of the hidden layer is above 0 for any sample, so that only the last bias is trained.
constexpr const char* kDead =
    "{layers: [flatten, dense: {units: 3, activation: relu, name: hidden, "
    "bias_initializer: {constant: {value: -100}}}, dense: {units: 2, name: last}]}";

config::Config build_config(std::int64_t steps, const char* model, const std::string& rest = "") {
  config::Config config = run_config(rest, model);
  config.train.epochs.reset();
  config.train.max_steps = steps;
  return config;
}

// Returns the warnings of UpdateCheck. Backends and data have warnings of their own.
std::vector<std::string> reports(const Trial& trial) {
  std::vector<std::string> texts;
  for (const Notice& warning : trial.warnings) {
    if (contains(warning.text, "the gradient of '") || contains(warning.text, "did not change '")) {
      texts.push_back(warning.text);
    }
  }
  return texts;
}

}  // namespace

TEST_CASE("train: parameters that no gradient reaches in updates 1, 10 and 50 cause one warning") {
  Trial trial(build_config(60, kDead));
  std::size_t warnings_at_49 = 1, warnings_at_51 = 0;
  trial.at_step = [&](std::int64_t step) {
    if (step == 49) warnings_at_49 = reports(trial).size();
    if (step == 51) warnings_at_51 = reports(trial).size();
    return Request::kContinue;
  };
  trial.run();
  CHECK(warnings_at_49 == 0);
  CHECK(warnings_at_51 == 1);
  REQUIRE(reports(trial).size() == 1);
  const std::string text = reports(trial)[0];
  CHECK(text.find("the gradient of 'hidden/kernel' (layer hidden, test.yaml:1:") == 0);
  CHECK(contains(text, "'hidden/bias' (layer hidden"));
  CHECK(contains(text, "'last/kernel' (layer last"));
  CHECK_FALSE(contains(text, "last/bias"));
  CHECK(contains(text, "is 0 in updates 1, 10 and 50"));
  CHECK(contains(text, "units of relu that are 0"));
}

TEST_CASE("train: a run of less than 50 updates warns of parameters without a change") {
  Trial trial(build_config(6, kDead));
  trial.run();
  REQUIRE(reports(trial).size() == 1);
  CHECK(contains(reports(trial)[0], "'last/kernel' (layer last"));
  CHECK(contains(reports(trial)[0], "is 0 in all updates of this run"));
  // In a run of one update, a layer of zeros may hide the layers before it.
  Trial single(build_config(1, kDead));
  single.run();
  CHECK(reports(single).empty());
}

TEST_CASE(
    "train: weight decay of a parameter without a gradient causes a warning after 50 updates") {
  for (const std::int64_t steps : {49, 50}) {
    Trial trial(build_config(steps, kDead));
    trial.config.optimizer =
        trainer::test::build_config(kDead, "optimizer: {adamw: {weight_decay: 0.1}}\n").optimizer;
    trial.run();
    CAPTURE(steps);
    // The decay of the last kernel is the same; a decayed bias of 100 rounds to another value.
    CHECK(reports(trial).size() == (steps == 50 ? 1 : 0));
  }
}

TEST_CASE("train: a warning of updates that are too small for the values has the learning rate") {
  Trial trial(build_config(50, kDense));
  trial.config.optimizer =
      trainer::test::build_config(kDense, "optimizer: {sgd: {learning_rate: 1.0e-12}}\n").optimizer;
  trial.run();
  REQUIRE(reports(trial).size() == 1);
  CHECK(reports(trial)[0].find("50 updates did not change 'dense/kernel'") == 0);
  CHECK(contains(reports(trial)[0], "The learning rate, 1e-12, may be too small"));
}

TEST_CASE("train: parameters that move and biases that batch norm cancels cause no warning") {
  for (const char* model : {kDense, kBatchNorm}) {
    Trial trial(build_config(50, model));
    trial.run();
    CAPTURE(model);
    CHECK(reports(trial).empty());
  }
}

TEST_CASE("train: updates with a learning rate of 0 are not counted") {
  Trial trial(build_config(
      60, kDead, "schedule: {polynomial: {decay_over: 1 steps, end_learning_rate: 0}}\n"));
  trial.run();
  CHECK(trial.rates.back() == 0);
  CHECK(reports(trial).empty());
}

TEST_CASE("train: a resumed run counts updates from its start and warns once") {
  Trial trial(build_config(40, kDead));
  trial.at_step = [](std::int64_t step) {
    return step == 30 ? Request::kStop : Request::kContinue;
  };
  trial.run();
  CHECK(reports(trial).size() == 1);  // of 30 updates
  Trial late(build_config(70, kDead));
  late.at_step = [](std::int64_t step) {
    if (step == 55) std::raise(SIGUSR1);
    return Request::kContinue;
  };
  CHECK(late.run().reason == FinishReason::kInterrupted);
  CHECK(reports(late).size() == 1);
  late.at_step = nullptr;
  late.run(Start::kResume);
  CHECK(reports(late).size() == 1);
}

namespace {

// Images of 32 x 32 x 3 bytes and labels of two classes, both functions of the index.
class ByteImages final : public data::Dataset {
 public:
  ByteImages() {
    spec_.image_shape = {32, 32, 3};
    spec_.image_type = DType::kUInt8;
    spec_.in_memory = true;
  }
  std::int64_t size() const override { return 8; }
  const data::DatasetSpec& spec() const override { return spec_; }
  using data::Dataset::get;
  void get(std::int64_t index, std::int64_t, void* image, void* label) const override {
    auto* bytes = static_cast<std::uint8_t*>(image);
    for (std::int64_t i = 0; i < 32 * 32 * 3; ++i) {
      bytes[i] = static_cast<std::uint8_t>((index * 37 + i * 11) % 251);
    }
    const std::int32_t is_odd = label_at(index);
    std::memcpy(label, &is_odd, sizeof is_odd);
  }
  std::int32_t label_at(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % 2);
  }
  std::string fingerprint() const override { return "bytes"; }

 private:
  data::DatasetSpec spec_;
};

}  // namespace

TEST_CASE(
    "train: layers that a stage unfreezes are watched from the stage on, and frozen ones are not") {
  Trial trial(build_config(56, kDense));
  trial.config.model =
      trainer::test::build_config(
          "{backbone: {name: mobilenet_v2, alpha: 0.35, freeze: all, batch_norm: eval, "
          "unfreeze: [{at: 50 steps, freeze: '[:-3]'}]}, "
          "head: [global_average_pool, dense: {units: 2, name: last, kernel_initializer: zeros}]}")
          .model;
  // The kernel is only at 0 until the first update, so that gradients reach the backbone.
  trial.data.train = std::make_unique<ByteImages>();
  trial.data.image_shape = Shape({32, 32, 3});
  trial.data.image_type = DType::kUInt8;
  trial.config.schedule = trainer::test::build_config(
                              kDense, "schedule: {milestones: {at: [50 steps], factor: 1.0e-14}}\n")
                              .schedule;
  trial.run();
  REQUIRE(reports(trial).size() == 1);
  CHECK(reports(trial)[0].find("6 updates did not change 'Conv_1/kernel'") == 0);
  CHECK_FALSE(contains(reports(trial)[0], "last/"));
}

}  // namespace trainer::train::update_check_test
