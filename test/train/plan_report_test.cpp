// The machine-independent part of the plan of every config against test/golden/plan_*.txt.
// TRAINER_UPDATE_GOLDEN=1 writes the files.
#include "train/plan_report.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/files.h"

namespace trainer::train {
namespace {

namespace fs = std::filesystem;

// MNIST's shape and size: what most configs here are written for.
PlannedData as_mnist() {
  PlannedData data;
  data.sample = model::SampleSpec{{28, 28, 1}, DType::kUInt8, true, 10};
  data.train = 60000;
  data.test = 10000;
  return data;
}

// A thousand images of the size and classes that the config itself names.
PlannedData as_named(const config::Config& config) {
  PlannedData data;
  data.sample = model::SampleSpec{Shape(config.model.input), DType::kUInt8, true,
                                  static_cast<std::int64_t>(config.data.classes.size())};
  data.train = 1000;
  data.validation = 300;
  return data;
}

}  // namespace

TEST_CASE("plans of all configs") {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(std::string(PROJECT_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  REQUIRE(paths.size() >= 4);
  for (const fs::path& path : paths) {
    const std::string name = path.stem().string();
    const config::LoadedConfig loaded =
        config::parse_config(read_text_file(path), "configs/" + path.filename().string(), {}, {});
    const PlannedData data =
        config::is_image_format(loaded.config.data.format) ? as_named(loaded.config) : as_mnist();
    std::ostringstream printed;
    print_plan(make_plan(loaded, data, plan_model(loaded.config, data)), printed);
    const std::string golden = std::string(TEST_SOURCE_DIR) + "/golden/plan_" + name + ".txt";
    if (std::getenv("TRAINER_UPDATE_GOLDEN")) std::ofstream(golden) << printed.str();
    std::ifstream file(golden);
    std::ostringstream expected;
    expected << file.rdbuf();
    INFO("file: ", golden, "; run with TRAINER_UPDATE_GOLDEN=1 to accept");
    CHECK(printed.str() == expected.str());
  }
}

TEST_CASE("origins, steps and rates of a plan") {
  const char* text = R"(
model: {layers: [flatten, dense: 10]}
data: {path: "${DIGITS:-x}"}
optimizer: {sgd: {learning_rate: 0.5, momentum: 0.9}, accumulate: 3}
schedule: {exponential: {decay_rate: 0.5, staircase: true}}
train: {epochs: 2, batch_size: 7}
)";
  const auto loaded = config::parse_config(
      text, "a.yaml", {{"train.batch_size", "10", "--batch-size"}}, {{"DIGITS", "/digits"}});
  PlannedData data = as_mnist();
  data.train = 95;
  const PlanReport plan = make_plan(loaded, data, plan_model(loaded.config, data));
  const auto origin = [&](const std::string& key) -> std::string {
    for (const PlanReport::Setting& setting : plan.settings) {
      if (setting.key == key) return setting.origin;
    }
    return "no such key";
  };
  CHECK(origin("train.epochs").starts_with("a.yaml:6"));
  CHECK(origin("train.batch_size") == "--batch-size");
  CHECK(origin("data.path").starts_with("$DIGITS"));
  CHECK(origin("seed") == "default");
  CHECK(plan.parameters == 7850);
  CHECK(plan.trainable == 7850);
  CHECK(plan.flops == 2 * 7840);
  CHECK(plan.slots == 7850);
  REQUIRE(plan.steps);
  CHECK(plan.steps->steps_per_epoch == 4);  // 10 batches, three a step
  CHECK(plan.steps->total_steps == 8);
  REQUIRE(plan.rates.size() == 8);
  CHECK(plan.rates.front().rate == doctest::Approx(0.5));
  CHECK(plan.rates.back().rate == doctest::Approx(0.25));
  CHECK(plan.lowest_rate == doctest::Approx(0.25));
  CHECK(plan.highest_rate == doctest::Approx(0.5));
}

TEST_CASE("passes are known by name") {
  check_pass("");
  check_pass("all");
  check_pass("differentiate");
  CHECK_THROWS_AS(check_pass("diferentiate"), ConfigError);
}

}  // namespace trainer::train
