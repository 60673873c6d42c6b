// Mistakes that newcomers make: each is answered with the text to write instead.
#include <doctest/doctest.h>

#include "base/error.h"
#include "pictures.h"

namespace trainer::e2e {
namespace {

struct Mistake {
  const char* name;
  std::string config;
  Arguments arguments;  // "CONFIG" stands for the config's path
  int code;
  const char* mended;  // part of the message
};

const std::string kModelLine = "model: {layers: [flatten, dense: 10]}\n";
const std::string kDataLine = "data: {format: digits, path: DATA, limit: 64}\n";
const std::string kTrainLine = "train: {max_steps: 1, batch_size: 8}\n";
const std::string kRight = kModelLine + kDataLine + kTrainLine;

std::string images(const std::string& data, const std::string& model) {
  return "model: {" + model + "}\ndata: {format: image_folder, " + data + "}\n" + kTrainLine;
}

std::vector<Mistake> mistakes() {
  const Arguments validate{"validate", "CONFIG"}, train{"train", "CONFIG", "--run-dir", "RUN"};
  const std::string two = "input: [32, 32, 3], layers: [flatten, dense: 2]";
  return {
      {"variable in braces",
       kModelLine + "data: {format: digits, path: ${A_DIR:-x}/y}\n" + kTrainLine, validate, 2,
       "\"${A_DIR:-x}/y\""},
      {"no blank after a colon", "name:pets\n" + kRight, validate, 2, "'name: pets'"},
      {"indentation", "model:\n  layers:\n  - flatten\n   - dense: 10\n" + kDataLine + kTrainLine,
       validate, 2, "align them as '  - dense: 10'"},
      {"optimizer by name", kRight + "optimizer: {name: adam, lr: 1.0e-3}\n", validate, 2,
       "'adam: {learning_rate: 1.0e-3}'"},
      {"lr in --set",
       kRight,
       {"validate", "CONFIG", "--set", "optimizer.lr=0.1"},
       2,
       "optimizer.adam.learning_rate"},
      {"underscore in a flag",
       kRight,
       {"train", "CONFIG", "--batch_size", "8"},
       2,
       "did you mean '--batch-size'?"},
      {"one logit for two classes",
       images("train: {path: PHOTOS}",
              "input: [32, 32, 3], layers: "
              "[flatten, dense: 1]"),
       train, 2, "set units: 2, or model.loss: binary_cross_entropy"},
      {"a config in place of a run",
       kRight,
       {"evaluate", "CONFIG"},
       0,
       "or name the run that `trainer train "},
      {"weights that are not there",
       images("train: {path: PHOTOS}",
              "input: [32, 32, 3], backbone: {name: vgg16, weights: imagenet}, head: [flatten, "
              "dense: 2]"),
       train, 3, "trainer weights vgg16"},
      {"a huge learning rate", kRight + "optimizer: {adam: {learning_rate: 1.0e+4}}\n", validate, 0,
       "Usual is learning_rate: 1.0e-3"},
      {"images without folders", images("path: FLAT", two), train, 3,
       "put the files of each class into a folder of its name"},
      {"a key on the wrong level",
       "model:\nlayers: [flatten, dense: 10]\n" + kDataLine + kTrainLine, validate, 2,
       "did you mean model.layers?"},
      {"a misspelt key", kModelLine + kDataLine + "train: {epochs: 1, bach_size: 8}\n", validate, 2,
       "did you mean 'batch_size'?"},
      {"a misspelt layer", "model: {layers: [flaten, dense: 10]}\n" + kDataLine + kTrainLine,
       validate, 2, "did you mean 'flatten'?"},
      {"a misspelt command", kRight, {"trian", "CONFIG"}, 2, "did you mean 'train'?"},
      {"a tab", "model:\n\tlayers: [flatten, dense: 10]\n" + kDataLine + kTrainLine, validate, 2,
       "indent with spaces"},
      {"a key given twice", kRight + "train: {epochs: 2}\n", validate, 2, "train"},
      {"no length", kModelLine + kDataLine + "train: {batch_size: 8}\n", validate, 2,
       "exactly one of: epochs, max_steps"},
      {"a quoted number", kModelLine + kDataLine + "train: {epochs: \"2\"}\n", validate, 2,
       "a number is written without quotes"},
      {"no image size", images("train: {path: PHOTOS}", "layers: [flatten, dense: 2]"), validate, 2,
       "[height, width]"},
      {"a wrong number of classes",
       "model: {layers: [flatten, dense: 9]}\n" + kDataLine + kTrainLine, train, 2,
       "set units: 10"},
      {"a softmax before the loss",
       "model: {layers: [flatten, dense: {units: 10, activation: softmax}]}\n" + kDataLine +
           kTrainLine,
       train, 2, "softmax"},
      {"no config", "", {"train", "nowhere.yaml"}, 2, "expected a YAML config, a folder of"},
      {"no data", kModelLine + "data: {format: idx, path: /nowhere}\n" + kTrainLine, train, 3,
       "/nowhere"},
      {"replicas without a rule",
       kRight,
       {"validate", "CONFIG", "--replicas", "2"},
       2,
       "lr_scaling"},
  };
}

std::string replace_all(std::string text, const std::string& word, const std::string& with) {
  for (std::size_t at; (at = text.find(word)) != std::string::npos;) {
    text.replace(at, word.size(), with);
  }
  return text;
}

}  // namespace

TEST_CASE("commands: each of 25 mistakes of users is an error with what to write instead") {
  const Workspace work;
  write_images(work / "photos", 4, 1);
  std::filesystem::create_directories(work / "flat");
  std::filesystem::copy_file(work / "photos" / "left" / "0.ppm", work / "flat" / "0.ppm");
  const std::string config = work / "mistaken.yaml";
  const std::vector<Mistake> all = mistakes();
  CHECK(all.size() == 25);
  for (const Mistake& mistake : all) {
    CAPTURE(mistake.name);
    std::string text = replace_all(mistake.config, "DATA", work.data());
    text = replace_all(text, "PHOTOS", (work / "photos").string());
    write_file_atomic(config, replace_all(text, "FLAT", (work / "flat").string()));
    Arguments arguments = mistake.arguments;
    for (std::string& argument : arguments) {
      if (argument == "CONFIG") argument = config;
      if (argument == "RUN") argument = work / "run";
    }
    const Result result = run(arguments, {{"HOME", work / "home"}, {"WEIGHTS_DIR", ""}});
    CAPTURE(result.err);
    CHECK(result.code == mistake.code);
    CHECK(result.err.find(mistake.mended) != std::string::npos);
    CHECK(result.err.find("Internal error") == std::string::npos);
    CHECK_FALSE(std::filesystem::exists(work / "run"));
  }
}

TEST_CASE("train needs no folder named train in a folder of class folders") {
  const Workspace work;
  write_images(work / "photos", 6, 1);
  const std::string config = work / "photos.yaml";
  write_file_atomic(config,
                    images("path: " + (work / "photos").string() + ", validation_split: 0.25",
                           "input: [32, 32, 3], layers: [flatten, dense: 2]"));
  const Result trained = run({"train", config, "--json", "--run-dir", work / "run"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(trained.event("finished")["metrics"]["validation"]["count"] == 3);
}

TEST_CASE("train: a class without images in a split is a warning in output and report") {
  const Workspace work;
  write_images(work / "train", 4, 1);
  write_images(work / "validation", 3, 2);
  std::filesystem::remove_all(work / "validation" / "right");
  const std::string config = work / "photos.yaml";
  write_file_atomic(config,
                    images("train: {path: " + (work / "train").string() +
                               "}, validation: {path: " + (work / "validation").string() + "}",
                           "input: [32, 32, 3], layers: [flatten, dense: 2]"));
  const Result trained = run({"train", config, "--json", "--run-dir", work / "run"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(trained.event("finished")["metrics"]["validation"]["count"] == 3);
  const char* const warning = "has no folder right; no image of this class is in this split";
  CHECK(trained.err.find(warning) != std::string::npos);
  const Json notice = Json::parse(read_text_file(work / "run/run.json")).at("data_notices").at(0);
  CHECK(notice.at("kind") == "warning");
  CHECK(notice.at("text").get<std::string>().find(warning) != std::string::npos);
  REQUIRE(run({"report", work / "run"}).code == 0);
  CHECK(read_text_file(work / "run/report.html").find(warning) != std::string::npos);
}

TEST_CASE("plan uses the size of the weights of a backbone where no size of images is given") {
  const Workspace work;
  write_images(work / "photos", 2, 1);
  const std::string config = work / "photos.yaml";
  write_file_atomic(config, images("train: {path: " + (work / "photos").string() + "}",
                                   "backbone: {name: mobilenet_v2, alpha: 0.35}, head: "
                                   "[global_average_pool, dense: 2]"));
  const Result plan = run({"plan", config, "--json"});
  INFO(plan.err);
  REQUIRE(plan.code == 0);
  std::string value, origin;
  const Json event = plan.event("plan");
  for (const Json& setting : event.at("config")) {
    if (setting.at("key") != "model.input") continue;
    value = setting.at("value").get<std::string>();
    origin = setting.at("origin").get<std::string>();
  }
  CHECK(value == "[224, 224, 3]");
  CHECK(origin == "model.backbone");
}

}  // namespace trainer::e2e
