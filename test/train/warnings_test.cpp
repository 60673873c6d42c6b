#include "train/warnings.h"

#include <doctest/doctest.h>

#include "support/model.h"

namespace trainer::train {
namespace {

// The warnings of a backbone with these keys, for 5 steps per epoch, and without data.
struct Warnings {
  explicit Warnings(const std::string& keys, std::int64_t epochs = 2, std::int64_t batch = 4) {
    config::Config config = trainer::test::build_config(
        "{backbone: {name: mobilenet_v2, alpha: 0.35" + keys + "}, head: [flatten, dense: 3]}");
    config.train.batch_size = batch;
    config.train.epochs = static_cast<double>(epochs);
    with_data = config_warnings(config, trainer::test::sample({32, 32, 3}, 3),
                                plan_steps(config, 5 * batch));
    without_data = config_warnings(config, std::nullopt, std::nullopt);
  }
  std::vector<std::string> with_data, without_data;
};

void check_one(const std::vector<std::string>& warnings, const std::string& text) {
  REQUIRE(warnings.size() == 1);
  CAPTURE(warnings[0]);
  CHECK(warnings[0].find(text) != std::string::npos);
}

}  // namespace

TEST_CASE("warnings: a plain model and frozen layers with weights have none") {
  CHECK(config_warnings(trainer::test::build_config("{layers: [flatten, dense: 3]}"),
                        trainer::test::sample({4, 4, 1}, 3), std::nullopt)
            .empty());
  CHECK(Warnings("", 600).with_data.empty());  // 3,000 steps
  CHECK(Warnings(", freeze: all, weights: w.h5").with_data.empty());
}

TEST_CASE("warnings: one reports noise of random_erasing that is cut at the range of pixels") {
  using Mode = config::RandomErasing::Mode;
  using Preset = config::PreprocessPreset;
  const auto find_warnings = [](Mode mode, Preset preset) {
    config::Config config = trainer::test::build_config("{layers: [flatten, dense: 3]}");
    config.data.preprocess = preset;
    config::RandomErasing erasing;
    erasing.mode = mode;
    config.data.train.augment = {{config::RandomFlipVertical{}, {}}, {erasing, {}}};
    return config_warnings(config, std::nullopt, std::nullopt);
  };
  for (const Mode mode : {Mode::kRand, Mode::kPixel}) {
    CHECK(find_warnings(mode, Preset::kTorch).empty());
    CHECK(find_warnings(mode, Preset::kCaffe).empty());
    // N(0, 1) is below 0 or above 1 with 50 % + 15.87 %, and outside [-1, 1] with 31.73 %.
    check_one(find_warnings(mode, Preset::kScale),
              "pixels are from 0.00 to 1.00 there, to which 65.87 % of the draws are cut");
    check_one(find_warnings(mode, Preset::kTf),
              "pixels are from -1.00 to 1.00 there, to which 31.73 % of the draws are cut");
    check_one(find_warnings(mode, Preset::kTf), "data.train.augment[1].random_erasing.mode: ");
  }
  CHECK(find_warnings(Mode::kConst, Preset::kScale).empty());
  CHECK(find_warnings(Mode::kValue, Preset::kScale).empty());
}

TEST_CASE(
    "warnings: frozen layers with random values have one, and so has freeze that selects no "
    "weights") {
  check_one(Warnings(", freeze: all").with_data,
            "model.backbone.freeze: the frozen layers keep the random numbers");
  check_one(Warnings(", freeze: [out_relu]", 600).with_data,
            "model.backbone.freeze: selects no layer that has weights");
  CHECK(Warnings(", freeze: all").without_data.empty());
}

TEST_CASE(
    "warnings: pretrained batch norm in a short run or on small batches causes one, unless eval") {
  const std::string pretrained = ", weights: w.h5";
  // 0.999^10
  check_one(
      Warnings(pretrained).with_data,
      "model.backbone.batch_norm: trains on the statistics of batches, and after the 10 steps "
      "of this run 99 % of the moving statistics are still those of the weights (momentum "
      "0.999)");
  check_one(Warnings(pretrained + ", freeze: '[:-3]'").with_data, "write batch_norm: eval");
  CHECK(Warnings(pretrained + ", batch_norm: eval").with_data.empty());
  CHECK(Warnings(pretrained).without_data.empty());
  // 0.999^3000 is 5.0 %
  check_one(Warnings(pretrained, 600).with_data, "batches of 4 samples have noisy statistics");
  CHECK(Warnings(pretrained, 600, 16).with_data.empty());
}

TEST_CASE(
    "warnings: batch norm without weights causes one up to the last step at which statistics lag") {
  const auto warnings = [](const std::string& layers, std::int64_t steps) {
    config::Config config = trainer::test::build_config("{layers: [" + layers + "]}");
    config.train.epochs.reset();
    config.train.max_steps = steps;
    return config_warnings(config, trainer::test::sample({4, 4, 1}, 3), plan_steps(config, 320));
  };
  const std::string layers = "flatten, dense: 4, batch_norm: {momentum: 0.99}, dense: 3";
  // 0.99^298 is 5.003 %, 0.99^299 is 4.953 %.
  check_one(warnings(layers, 298),
            "batch_norm: after the 298 steps of this run 5 % of the moving statistics are still "
            "their first values, 0 and 1 (momentum 0.99), so that evaluation normalises "
            "differently from training; write batch_norm: {momentum: 0.9}, or train for 299 steps "
            "or more");
  check_one(warnings(layers, 298), "test.yaml:1:");
  CHECK(warnings(layers, 299).empty());
  check_one(warnings("conv: {filters: 2, batch_norm: true}, flatten, dense: 3", 100), "37 %");
  // The slowest layer counts; 0.9^28 is 5.2 %, 0.9^29 is 4.7 %.
  const std::string two =
      "flatten, batch_norm: {momentum: 0.5}, batch_norm: {momentum: 0.9}, dense: 3";
  check_one(warnings(two, 28), "write batch_norm: {momentum: 0.89}, or train for 29 steps or more");
  CHECK(warnings(two, 29).empty());
  CHECK(warnings("flatten, batch_norm: {momentum: 0.89}, dense: 3", 28).empty());
  // Statistics that never change.
  const std::vector<std::string> constant =
      warnings("flatten, batch_norm: {momentum: 1}, dense: 3", 1000);
  check_one(constant, "100 % of the moving statistics");
  CHECK(constant[0].ends_with("write batch_norm: {momentum: 0.9}"));
}

TEST_CASE(
    "warnings: batch norm of a backbone without weights, whose momentum is not a key, causes one") {
  check_one(Warnings("").with_data,
            "model.backbone: after the 10 steps of this run 99 % of the moving statistics are "
            "still their first values, 0 and 1 (momentum 0.999), so that evaluation normalises "
            "differently from training; train for 2995 steps or more");
  CHECK(Warnings(", batch_norm: eval").with_data.empty());
  CHECK(Warnings("").without_data.empty());
}

TEST_CASE("warnings: a stage after the end of the run has one with its key and line") {
  const std::string late = ", freeze: all, weights: w.h5, unfreeze: [{at: 2 epochs, freeze: none}]";
  check_one(Warnings(late).with_data,
            "model.backbone.unfreeze[0].at: the run ends before 2 epochs");
  check_one(Warnings(late).without_data, "test.yaml:1:");
  const std::string early =
      ", freeze: all, weights: w.h5, batch_norm: eval, unfreeze: [{at: 9 steps, freeze: none}]";
  CHECK(Warnings(early).with_data.empty());
  CHECK(Warnings(early).without_data.empty());
}

}  // namespace trainer::train
