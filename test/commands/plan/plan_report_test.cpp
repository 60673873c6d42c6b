// The machine-independent part of the plan of every config against test/golden/plan_*.txt.
// TRAINER_UPDATE_GOLDEN=1 writes the files.
#include "commands/plan/plan_report.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "commands/plan/print_graphs.h"
#include "support/source_files.h"

namespace trainer::commands {
namespace {

namespace fs = std::filesystem;

// MNIST's shape and size: what most configs here are written for.
PlannedData as_mnist() {
  PlannedData data;
  data.sample = model::SampleSpec{{28, 28, 1}, DType::kUInt8, true, 10};
  data.splits = {{Split::kTrain, 60000, false}, {Split::kTest, 10000, false}};
  return data;
}

// A thousand images of the size and classes that the config itself names.
PlannedData as_named(const config::Config& config) {
  PlannedData data;
  data.sample = model::SampleSpec{Shape(config.model.input), DType::kUInt8, true,
                                  static_cast<std::int64_t>(config.data.classes.size())};
  data.splits = {{Split::kTrain, 1000, false}, {Split::kValidation, 300, false}};
  return data;
}

}  // namespace

TEST_CASE("plan writes no file, and its settings fit 80 columns") {
  const TemporaryFolder folder;
  const Path digits = folder.path() / "digits";
  config::LoadedConfig loaded =
      config::parse_config(read_text_file(test::source_file("configs/digits.yaml")),
                           "configs/digits.yaml", {{"data.path", digits.string(), "--set"}}, {});
  const PlannedData data = plan_data(loaded.config);
  CHECK(data.size(Split::kTrain) == 20000);
  CHECK_FALSE(fs::exists(digits));
  std::ostringstream printed;
  print_plan(make_plan(loaded, data, plan_model(loaded.config, data)), printed, Values::kGiven,
             LayerRows::kBlocks, 80);
  std::istringstream lines(printed.str());
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    // A path of the temporary folder may be longer.
    CHECK((line.size() <= 80 || line.find(digits) != std::string::npos));
  }
}

TEST_CASE("plan: all configs have the expected texts") {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(test::source_file("configs"))) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  REQUIRE(paths.size() >= 4);
  for (const fs::path& path : paths) {
    const std::string name = path.stem().string();
    const config::LoadedConfig loaded =
        config::parse_config(read_text_file(path), "configs/" + path.filename().string(), {}, {});
    PlannedData data =
        config::is_image_format(loaded.config.data.format) ? as_named(loaded.config) : as_mnist();
    if (!loaded.config.model.input.empty()) data.sample->image = Shape(loaded.config.model.input);
    std::ostringstream printed;
    print_plan(make_plan(loaded, data, plan_model(loaded.config, data)), printed);
    const std::string golden = test::source_file("test/golden/plan_") + name + ".txt";
    if (std::getenv("TRAINER_UPDATE_GOLDEN")) std::ofstream(golden) << printed.str();
    std::ifstream file(golden);
    std::ostringstream expected;
    expected << file.rdbuf();
    INFO("file: ", golden, "; run with TRAINER_UPDATE_GOLDEN=1 to accept");
    CHECK(printed.str() == expected.str());
  }
}

TEST_CASE("plan prints first the given values, then the values that follow from them") {
  const auto loaded = config::parse_config(
      "model: {layers: [flatten, dense: 10]}\ndata: {path: \"${MNIST_DIR:-x}\"}\n"
      "train: {epochs: 2, batch_size: 32}\n",
      "x.yaml", {{"seed", "7", "--seed"}}, {});
  const PlanReport plan = make_plan(loaded, as_mnist(), plan_model(loaded.config, as_mnist()));
  std::ostringstream given, all;
  print_plan(plan, given);
  print_plan(plan, all, Values::kAll);
  const std::string text = given.str();
  CHECK(text.starts_with("config, as given"));
  const std::size_t follows = text.find("\nwhat follows from it\n");
  REQUIRE(follows != std::string::npos);
  for (const char* key : {"  seed ", "  data.path ", "  train.epochs ", "  train.batch_size "}) {
    CAPTURE(key);
    CHECK(text.find(key) < follows);
  }
  CHECK(text.find("  train.max_steps ") > follows);
  CHECK(text.find("  train.precision ") == std::string::npos);
  CHECK(text.find(" more values are defaults; --all lists them\n") != std::string::npos);
  for (const PlanReport::Setting& setting : plan.settings) {
    CAPTURE(setting.key);
    CHECK(all.str().find("  " + setting.key + " ") != std::string::npos);
  }
}

TEST_CASE("make_plan finds origins of values, sizes, steps and learning rates") {
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
  data.splits = {{Split::kTrain, 95, false}};
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
  CHECK(plan.steps->steps_per_epoch == 4);  // 10 batches, three per step
  CHECK(plan.steps->total_steps == 8);
  REQUIRE(plan.rates.size() == 8);
  CHECK(plan.rates.front().rate == doctest::Approx(0.5));
  CHECK(plan.rates.back().rate == doctest::Approx(0.25));
  CHECK(plan.lowest_rate == doctest::Approx(0.25));
  CHECK(plan.highest_rate == doctest::Approx(0.5));
}

TEST_CASE("make_plan: the work of a step is that of the graphs that are built") {
  PlannedData data;
  data.sample = model::SampleSpec{{32, 32, 3}, DType::kUInt8, true, 2};
  data.splits = {{Split::kTrain, 100, false}};
  const auto plan = [&](const std::string& freeze) {
    const auto loaded = config::parse_config(
        concat("model: {input: [32, 32, 3], backbone: {name: vgg16, ", freeze,
               "}, head: [flatten, dense: {units: 2, name: logits}]}\n"
               "data: {format: image_folder, path: /nowhere, classes: [a, b]}\n"
               "optimizer: {adam: {learning_rate: 0.1}}\ntrain: {epochs: 4, batch_size: 10}\n"),
        "a.yaml", {}, {});
    return make_plan(loaded, data, plan_model(loaded.config, data));
  };
  const PlanReport whole = plan("freeze: none");
  REQUIRE(whole.work);
  const std::int64_t first = whole.layers[1].flops;  // whose input is the image
  CHECK(whole.layers[1].name == "block1_conv1");
  CHECK(whole.work->frozen == 0);
  CHECK(whole.work->forward == whole.flops);
  CHECK(whole.work->backward == 2 * whole.flops - first);
  // The last four layers are three convolutions and a pooling; before the first of them there is
  // nothing to learn.
  const PlanReport part = plan("freeze: '[:-4]', unfreeze: {at: 2 epochs}");
  std::int64_t trained = 0, first_trained = 0;
  for (const model::LayerRow& row : part.layers) {
    if (row.trainable_parameters == 0) continue;
    if (trained == 0) first_trained = row.flops;
    trained += row.flops;
  }
  REQUIRE(part.work);
  CHECK(part.work->frozen == part.flops - trained);
  CHECK(part.work->forward == trained);
  CHECK(part.work->backward == 2 * trained - first_trained);
  CHECK(part.work->with_features().total() == 3 * trained - first_trained);
  REQUIRE(part.stages.size() == 1);
  CHECK(part.stages[0].work.total() == whole.work->total());
  // Adam's two of all parameters, which are trained at last.
  CHECK(part.slots == 2 * part.parameters);
  CHECK(part.slots == whole.slots);
}

TEST_CASE("check_pass: an unknown name is an error") {
  check_pass("");
  check_pass("all");
  check_pass("differentiate");
  CHECK_THROWS_AS(check_pass("diferentiate"), ConfigError);
}

}  // namespace trainer::commands
