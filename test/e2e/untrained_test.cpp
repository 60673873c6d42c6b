// predict, evaluate and export of a config, before any training.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "pictures.h"
#include "support/contains.h"

namespace trainer::e2e {
namespace {

using test::contains;

std::string digits_config(const Workspace& work, const std::string& more = "") {
  return work.config(kModel +
                     ("data: {format: idx, path: " + work.data() + R"(}
optimizer: {adam: {learning_rate: 3.0e-3}}
train: {epochs: 1, batch_size: auto}
run: {dir: )" + (work / "run").string() +
                      "}\n") +
                     more);
}

Path exported(const Workspace& work, const std::string& model, const std::string& name,
              const Arguments& more = {}, const Environment& environment = {}) {
  Path file = work / name;
  const bool keras = file.extension() == ".h5";
  Arguments arguments{"export",   model, "--format", keras ? "keras_h5" : "safetensors",
                      "--output", file};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Result result = run(arguments, environment);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return file;
}

}  // namespace

TEST_CASE("commands: the untrained model of a config without a run is evaluated and exported") {
  const Workspace work;
  const std::string config = digits_config(work);
  const Result evaluated = run({"evaluate", config, "--json"});
  INFO(evaluated.err);
  REQUIRE(evaluated.code == 0);
  CHECK(evaluated.event("evaluated").at("count") == 250);
  CHECK(evaluated.event("evaluated").at("step") == 0);
  CHECK(contains(evaluated.err, "untrained: the whole model is as initialised (seed"));
  CHECK(contains(evaluated.err, "the predictions mean nothing yet"));
  CHECK(contains(evaluated.err, "makes: " + (work / "run").string()));

  const Result first = run({"predict", config, "--format", "csv", "--limit", "3"});
  REQUIRE(first.code == 0);
  CHECK(first.out.starts_with("index,class,probability,label,p_0,p_1,"));
  const Result again = run({"predict", config, "--format", "csv", "--limit", "3"});
  CHECK(again.out == first.out);
  const Result other =
      run({"predict", config, "--format", "csv", "--limit", "3", "--set", "seed=5"});
  CHECK(other.out != first.out);
  CHECK_FALSE(load_values(exported(work, config, "initial.safetensors")).empty());
}

TEST_CASE("commands: a config with --weights of a run gives the model of the run") {
  const Workspace work;
  const std::string config = digits_config(work);
  REQUIRE(run({"train", config, "--quiet"}).code == 0);
  const std::string folder = work / "run";
  const Result trained = run({"predict", folder, "--json"});
  const Result given = run({"predict", config, "--weights", folder, "--json"});
  INFO(given.err);
  REQUIRE(given.code == 0);
  CHECK(given.out == trained.out);
  CHECK_FALSE(contains(given.err, "untrained"));
  const Json metrics = run({"evaluate", folder, "--json"}).event("evaluated");
  const Json same = run({"evaluate", config, "--weights", folder, "--json"}).event("evaluated");
  CHECK(same.at("loss") == metrics.at("loss"));
  CHECK(same.at("confusion") == metrics.at("confusion"));
  CHECK(load_values(exported(work, config, "given.safetensors", {"--weights", folder})) ==
        load_values(exported(work, folder, "trained.safetensors")));

  const auto refuses = [](const Arguments& arguments, int code, const std::string& what) {
    const Result result = run(arguments);
    CAPTURE(result.err);
    CHECK(result.code == code);
    CHECK(contains(result.err, what));
    CHECK(result.out.empty());
  };
  refuses({"predict", folder, "--weights", folder}, 2, "has weights of its own");
  refuses({"evaluate", config, "--best"}, 2, "--best is of a run");
  refuses({"evaluate", config, "--follow"}, 2, "--follow waits for the checkpoints of a run");
  refuses({"evaluate", folder, "--follow", "--weights", folder}, 2, "--weights excludes --follow");
  refuses({"predict", config, "--weights", "imagenet"}, 2, "has no model.backbone");
  refuses({"predict", config, "--weights", "no/where"}, 3, "no/where: there is no such file");
}

TEST_CASE("train: allow_missing prints one line each for unused and initialised tensors") {
  const Workspace work;
  const std::string config = digits_config(work);
  const Path file = exported(work, config, "first.safetensors");
  std::string text = read_text_file(config);
  const std::size_t head = text.find("dense: 10");
  REQUIRE(head != std::string::npos);
  text.replace(head, 9, "dense: {units: 10, name: last}");
  write_file_atomic(config, text);
  const Result result = run({"train", config, "--set", concat("model.weights=", file.string()),
                             "--set", "model.allow_missing=[last]", "--set", "train.max_steps=1",
                             "--set", "train.batch_size=8"});
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK(
      contains(result.err, concat("note: ", file.string(),
                                  ": 2 tensors of the model left as initialised, as allow_missing "
                                  "permits: last/kernel, last/bias\n")));
  CHECK(contains(result.err,
                 concat("warning: ", file.string(),
                        ": 2 tensors of the file unused, for which the model has no place: "
                        "dense/")));
  CHECK_FALSE(contains(result.err, "\\x0a"));
}

TEST_CASE(
    "predict: the error of --weights of which no tensor fits has the names that are expected") {
  const Workspace work;
  const std::string config = digits_config(work);
  const Path file = work / "other.safetensors";
  checkpoint::write_safetensors(file, {{"other/kernel", Shape{1}, {1}}}, {});
  const Result result = run(
      {"predict", config, "--limit", "1", "--weights", file, "--set", "model.allow_missing=['*']"});
  INFO(result.err);
  CHECK(result.code == 3);
  CHECK(contains(result.err,
                 "has no tensor that the model takes: it holds other/kernel. Expected "
                 "are the names: conv2d/kernel, "));
}

TEST_CASE(
    "commands: --weights imagenet loads the weights of the backbone and initialises the head") {
  const Pictures pictures;
  const Workspace& work = pictures.work;
  const Environment weights{{"WEIGHTS_DIR", work / "."}};
  // Other initial values stand for those of Keras.
  exported(work, pictures.config,
           "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_0.35_224_no_top.h5",
           {"--set", "seed=11"});
  const auto keras =
      load_values(exported(work, pictures.config, "other.safetensors", {"--set", "seed=11"}));
  const auto initial = load_values(exported(work, pictures.config, "initial.safetensors"));
  const auto loaded = load_values(
      exported(work, pictures.config, "loaded.safetensors", {"--weights", "imagenet"}, weights));
  // Weights of the whole model, which the config names, give way.
  const std::string whole = concat("model.weights=", (work / "initial.safetensors").string());
  CHECK(load_values(exported(work, pictures.config, "again.safetensors",
                             {"--weights", "imagenet", "--set", whole}, weights)) == loaded);
  REQUIRE(loaded.size() == keras.size());
  CHECK(keras != initial);
  for (const auto& [name, values] : loaded) {
    CAPTURE(name);
    CHECK(values == (name.starts_with("dense") ? initial : keras).at(name));
  }

  const Arguments predict{"predict", pictures.config, (work / "validation" / "left").string(),
                          "--json",  "--weights",     "imagenet"};
  const Result result = run(predict, weights);
  INFO(result.err);
  CHECK(result.lines().size() == 7);
  CHECK(result.lines().at(0).at("probabilities").contains("left"));
  CHECK(contains(result.err, "untrained: layers dense, dense_1 are as initialised (seed"));
  CHECK(contains(result.err, "the predictions mean nothing yet"));
  // Features do not depend on the head.
  const Result features = run({"predict", pictures.config, (work / "validation" / "left").string(),
                               "--weights", "imagenet", "--features", work / "features.npy"},
                              weights);
  INFO(features.err);
  CHECK(features.code == 0);
  CHECK(contains(features.err, "as initialised (seed"));
  CHECK_FALSE(contains(features.err, "mean nothing"));
  const Result none = run(predict, {{"WEIGHTS_DIR", work / "train"}, {"HOME", work / "train"}});
  CHECK(none.code == 3);
  CHECK(contains(none.err, "0.35_224_no_top.h5 is in none of"));
}

TEST_CASE("predict: classes are numbers for a config without its data") {
  const Pictures pictures;
  const Workspace& work = pictures.work;
  std::filesystem::rename(work / "validation", work / "images");
  std::filesystem::remove_all(work / "train");
  const Result named = run({"predict", pictures.config, work / "images", "--json"});
  INFO(named.err);
  REQUIRE(named.code == 0);
  CHECK(named.lines().at(0).at("probabilities").contains("right"));
  const Result numbered =
      run({"predict", pictures.config, work / "images", "--json", "--set", "data.classes=[]"});
  INFO(numbered.err);
  REQUIRE(numbered.code == 0);
  CHECK(numbered.lines().at(0).at("probabilities").contains("1"));
  CHECK(numbered.lines().at(0).at("probabilities").size() == 2);
  CHECK(contains(numbered.err, "classes are numbers"));
  CHECK(run({"evaluate", pictures.config}).code == 3);
}

}  // namespace trainer::e2e
