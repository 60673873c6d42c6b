// Predictions of image files next to the evaluation of the split that they belong to.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/numbers/random.h"
#include "commands/predict/prediction_writer.h"
#include "engine/evaluate.h"
#include "inference/predict/predict.h"
#include "model/build_model.h"
#include "train/open.h"
#include "train/state.h"

namespace trainer::commands {
namespace {

namespace fs = std::filesystem;

void write_ppm(const fs::path& path, int seed, bool grey) {
  fs::create_directories(path.parent_path());
  const int height = 20 + seed % 9, width = 18 + seed % 5;
  std::string text = concat(grey ? "P5 " : "P6 ", width, ' ', height, " 255\n");
  Random random(static_cast<std::uint64_t>(seed), Stream::kSynthetic);
  for (int i = 0; i < height * width * (grey ? 1 : 3); ++i) {
    text += static_cast<char>(random.below(256));
  }
  std::ofstream(path, std::ios::binary) << text;
}

// Eleven validation images, some of them grey, and a run's checkpoint in memory.
struct Fixture {
  TemporaryFolder folder;
  inference::OpenedModel trained;

  Fixture() {
    for (int i = 0; i < 11; ++i) {
      const std::string name = i % 3 == 0 ? "cat" : "dog";
      write_ppm(folder.path() / "train" / name / concat(i, ".ppm"), 100 + i, false);
      write_ppm(folder.path() / "val" / name / concat("deep/", i, ".ppm"), i, i % 4 == 0);
    }
    const std::string text = concat(
        "model: {layers: [conv: {filters: 4, activation: relu}, batch_norm, max_pool, flatten, ",
        "dense: 2]}\ndata: {format: image_folder, path: ", folder.path().string(),
        ", resize: [12, 10], interpolation: bicubic, fit: crop, crop_fraction: 0.8, ",
        "preprocess: tf, on_error: skip, train: {augment: [random_flip_horizontal, mixup]}}\n",
        "train: {epochs: 1, batch_size: 4}\n");
    trained.config = config::parse_config(text, "files.yaml", {}, {}).config;
    trained.path = "memory";
    trained.classes = {"cat", "dog"};
    trained.image_shape = Shape{12, 10, 3};
    trained.image_type = DType::kUInt8;
    trained.warn = [](const Notice& notice) { FAIL(notice.text); };
  }

  std::unique_ptr<engine::Engine> engine(const model::SampleSpec& spec, engine::Use use) const {
    auto engine = std::make_unique<engine::Engine>(
        model::build_model(trained.config.model, trained.config.data, spec, 1), trained.config,
        engine::open_backends(trained.config, {}), use);
    engine->initialise(5);
    return engine;
  }
  std::string path(const char* name) const { return (folder.path() / name).string(); }
};

// Logits by file, and the files in the order in which they came.
struct Found {
  std::map<std::string, std::vector<float>> logits;
  std::vector<std::string> order;
  std::vector<std::string> errors;
};
Found predict_files(const Fixture& fixture, const std::vector<std::string>& files,
                    bool skip = false) {
  Found found;
  const auto inputs = inference::open_prediction_inputs(fixture.trained, files, Split::kTest, skip);
  const auto owned =
      fixture.engine(inference::sample_spec(fixture.trained, inputs), engine::Use::kPredict);
  engine::Engine& engine = *owned;
  for (const inference::PredictionInput& input : inputs) {
    inference::predict(engine, input, {fixture.trained.config.model.loss},
                       [&](const results::Prediction& p) {
                         const std::string name = input.name_of(p.index);
                         found.order.push_back(name);
                         if (!p.error.empty()) return found.errors.push_back(p.error);
                         CHECK(!p.label.has_value());
                         found.logits[name].assign(p.logits.begin(), p.logits.end());
                       });
  }
  return found;
}

}  // namespace

TEST_CASE("predict: files of a split have the results of the evaluation of the split bit by bit") {
  const Fixture fixture;
  const data::Datasets data = inference::open_split(fixture.trained, Split::kValidation);
  const data::Dataset& set = *data.validation;
  REQUIRE(set.size() == 11);
  std::map<std::string, std::vector<float>> evaluated;
  const auto owned = fixture.engine(train::sample_spec(data), engine::Use::kEvaluate);
  engine::Engine& engine = *owned;
  engine::EvaluateOptions options = engine::evaluate_options(fixture.trained.config);
  options.each_batch = [&](const data::Batch& batch, std::span<const float> logits) {
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      evaluated[set.describe(batch.indices[i])] = {logits[2 * i], logits[2 * i + 1]};
    }
  };
  REQUIRE(engine::evaluate(engine, set, options).has_value());
  REQUIRE(evaluated.size() == 11);

  const Found whole = predict_files(fixture, {fixture.path("val")});
  CHECK(whole.logits == evaluated);
  // In another order and other batches.
  std::vector<std::string> files;
  for (const auto& [name, logits] : evaluated) files.insert(files.begin(), name);
  files.push_back(fixture.path("val/cat"));
  const Found each = predict_files(fixture, files);
  CHECK(each.logits == evaluated);
  CHECK(each.order.size() == 15);
  CHECK(std::vector(each.order.begin(), each.order.begin() + 11) ==
        std::vector(files.begin(), files.begin() + 11));
}

TEST_CASE("predict: damaged files are an error, or are skipped without a change of the others") {
  const Fixture fixture;
  const Found sound = predict_files(fixture, {fixture.path("val")});
  const std::string bad = fixture.path("val/dog/broken.jpg");
  std::ofstream(bad) << "\xFF\xD8\xFF no picture";
  std::ofstream(fixture.path("val/dog/notes.txt")) << "not named like an image";
  CHECK_THROWS_WITH_AS(predict_files(fixture, {fixture.path("val")}),
                       doctest::Contains("broken.jpg"), DataError);
  const Found rest = predict_files(fixture, {fixture.path("val")}, true);
  REQUIRE(rest.errors.size() == 1);
  CHECK(rest.errors[0].find(bad) == 0);
  CHECK(rest.order.size() == 12);
  CHECK(rest.logits == sound.logits);

  CHECK_THROWS_WITH_AS(predict_files(fixture, {fixture.path("nowhere.png")}),
                       doctest::Contains("no such file; expected image files"), DataError);
  fs::create_directories(fixture.folder.path() / "empty");
  CHECK_THROWS_WITH_AS(predict_files(fixture, {fixture.path("empty")}),
                       doctest::Contains("contains no image files"), DataError);
}

TEST_CASE("PredictionWriter: the most probable classes come first in every format") {
  const Fixture fixture;
  const auto inputs = inference::open_prediction_inputs(
      fixture.trained, {fixture.path("val/cat/deep/0.ppm")}, Split::kTest, false);
  results::Prediction prediction;
  prediction.predicted = 1;
  prediction.probabilities = {0.25, 0.75};
  const auto written = [&](const char* format, std::optional<std::int64_t> top) {
    std::ostringstream out;
    PredictionWriter writer(format, fixture.trained.classes, inputs, top, out);
    writer.header();
    writer.write(inputs[0], prediction);
    return out.str();
  };
  const std::string name = inputs[0].name_of(0);
  CHECK(written("csv", 5) ==
        "file,index,class,probability,class_2,probability_2\n" + name + ",0,dog,0.75,cat,0.25\n");
  CHECK(written("csv", 1) == "file,index,class,probability\n" + name + ",0,dog,0.75\n");
  CHECK(written("csv", {}) ==
        "file,index,class,probability,p_cat,p_dog\n" + name + ",0,dog,0.75,0.25,0.75\n");
  CHECK(written("jsonl", 2)
            .ends_with(
                R"("top":[{"class":"dog","probability":0.75},{"class":"cat","probability":0.25}]})"
                "\n"));
  CHECK(written("table", 2).ends_with("0.7500  cat 0.2500\n"));
}

TEST_CASE("sample_spec has labels or float targets as in training for any predicted files") {
  Fixture fixture;
  fixture.trained.config.model.loss = LossKind::kBinaryCrossEntropy;
  data::Datasets data = inference::open_split(fixture.trained, Split::kTrain);
  const auto check = [&](bool label_is_index) {
    data.label_is_index = label_is_index;
    const checkpoint::Metadata metadata =
        train::to_metadata({}, fixture.trained.config, data,
                           train::plan_steps(fixture.trained.config, data.train->size()));
    fixture.trained.label_is_index = train::read_label_is_index(metadata, "run");
    const auto inputs = inference::open_prediction_inputs(fixture.trained, {fixture.path("val")},
                                                          Split::kTest, false);
    const model::SampleSpec spec = inference::sample_spec(fixture.trained, inputs);
    CHECK(spec.label_is_index == label_is_index);
    CHECK(inference::sample_spec(fixture.trained).label_is_index == label_is_index);
  };
  check(false);
  check(true);
}

TEST_CASE("PredictionWriter escapes control characters in names of files and classes") {
  std::vector<inference::PredictionInput> inputs(2);
  inputs[0].name = "a\nb.npy";
  for (const char* format : {"csv", "table"}) {
    std::ostringstream out;
    PredictionWriter writer(format, {"c\na,t", "d\x1b[31m"}, inputs, std::nullopt, out);
    writer.header();
    results::Prediction prediction;
    prediction.probabilities = {0.25, 0.75};
    prediction.predicted = 1;
    writer.write(inputs.front(), prediction);
    const std::string text = out.str();
    CAPTURE(text);
    CHECK(std::count(text.begin(), text.end(), '\n') == 2);
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find("a\\x0ab.npy") != std::string::npos);
    CHECK(text.find("d\\x1b[31m") != std::string::npos);
    if (std::string(format) == "csv") {
      CHECK(text.find(",\"p_c\\x0aa,t\",") != std::string::npos);
    }
  }
}

}  // namespace trainer::commands
