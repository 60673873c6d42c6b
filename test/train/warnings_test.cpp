#include "train/warnings.h"

#include <doctest/doctest.h>

#include "support/model.h"

namespace trainer::train {
namespace {

// The warnings of a backbone with these keys, for 5 steps an epoch, 10 in all, and without data.
struct Warnings {
  explicit Warnings(const std::string& keys) {
    config::Config config = trainer::test::config_of("{backbone: {name: mobilenet_v2, alpha: 0.35" +
                                                     keys + "}, head: [flatten, dense: 3]}");
    config.train.batch_size = 4;
    config.train.epochs = 2;
    with_data =
        config_warnings(config, trainer::test::sample({32, 32, 3}, 3), plan_steps(config, 20));
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

TEST_CASE("warnings: a plain model has none, nor one whose frozen layers have weights") {
  CHECK(config_warnings(trainer::test::config_of("{layers: [flatten, dense: 3]}"),
                        trainer::test::sample({4, 4, 1}, 3), std::nullopt)
            .empty());
  CHECK(Warnings("").with_data.empty());
  CHECK(Warnings(", freeze: all, weights: w.h5").with_data.empty());
}

TEST_CASE("warnings: layers frozen at random numbers, and a selection of none") {
  check_one(Warnings(", freeze: all").with_data,
            "model.backbone.freeze: the frozen layers keep the random numbers");
  check_one(Warnings(", freeze: [out_relu]").with_data,
            "model.backbone.freeze: selects no layer that has weights");
  CHECK(Warnings(", freeze: all").without_data.empty());
}

TEST_CASE("warnings: a stage that comes after the end of the run, with its place") {
  const std::string late = ", freeze: all, weights: w.h5, unfreeze: [{at: 2 epochs, freeze: none}]";
  check_one(Warnings(late).with_data,
            "model.backbone.unfreeze[0].at: the run ends before 2 epochs");
  check_one(Warnings(late).without_data, "test.yaml:1:");
  const std::string early = ", freeze: all, weights: w.h5, unfreeze: [{at: 9 steps, freeze: none}]";
  CHECK(Warnings(early).with_data.empty());
  CHECK(Warnings(early).without_data.empty());
}

}  // namespace trainer::train
