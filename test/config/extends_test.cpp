// Configs that build on other files, and what top-level keys x-... hold.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/files/files.h"
#include "config/support.h"

namespace trainer::config {
namespace {

// Files of one folder, the last of which is loaded.
struct Files {
  TemporaryFolder folder;
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    write_file_atomic(folder.path() / name, text);
  }
  LoadedConfig load(const std::string& name, const std::vector<Override>& overrides = {}) const {
    return load_config(path(name), overrides, {{"BASE", "base.yaml"}});
  }
  std::string mistakes(const std::string& name, const std::vector<Override>& overrides = {}) const {
    try {
      load(name, overrides);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
};

}  // namespace

TEST_CASE("extends: own keys replace those of the file: maps key by key, lists as a whole") {
  const Files files;
  files.write("base.yaml", kModel + kData +
                               "train: {epochs: 3, batch_size: 8}\n"
                               "optimizer: {sgd: {learning_rate: 0.5, momentum: 0.9}}\n"
                               "run: {keep: 7}\n");
  files.write("own.yaml",
              "extends: ${BASE}\n"
              "train: {batch_size: 16}\n"
              "model: {layers: [flatten, dense: 20, dense: 10]}\n"
              "optimizer: {sgd: {momentum: 0.8}}\n");
  const LoadedConfig loaded = files.load("own.yaml", {set("train.batch_size", "32")});
  const Config& config = loaded.config;
  CHECK(config.name == "own");
  CHECK(config.train.batch_size == 32);
  CHECK(config.train.epochs == 3);
  CHECK(config.run.keep == 7);
  CHECK(config.model.layers.size() == 3);
  CHECK(std::get<Sgd>(config.optimizer.kind).learning_rate == 0.5);
  CHECK(std::get<Sgd>(config.optimizer.kind).momentum == 0.8);
  CHECK(to_string(loaded.origins.at("train.epochs").loc) == files.path("base.yaml") + ":3:17");
  CHECK(to_string(loaded.origins.at("optimizer.sgd.momentum").loc) ==
        files.path("own.yaml") + ":4:29");
  CHECK(loaded.origins.at("train.batch_size").kind == Origin::Kind::kSet);
}

TEST_CASE("extends merges a class_weight of more classes than a section has keys by class") {
  const Files files;
  std::string weights = "train: {epochs: 1, class_weight: {zero: 2";
  for (int c = 0; c < 1200; ++c) weights += concat(", c", c, ": 0.5");
  files.write("base.yaml",
              kModel + kData + "train: {epochs: 1, class_weight: {zero: 3, last: 4}}\n");
  files.write("own.yaml", "extends: base.yaml\n" + weights + "}}\n");
  const Config config = files.load("own.yaml", {}).config;
  REQUIRE(config.train.class_weight.has_value());
  const auto& by_class = config.train.class_weight->weights;
  CHECK(by_class.size() == 1202);
  const auto find_weight = [&](const std::string& name) {
    const auto found = std::find_if(by_class.begin(), by_class.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    return found == by_class.end() ? -1.0 : found->second;
  };
  CHECK(find_weight("zero") == 2);
  CHECK(find_weight("last") == 4);
}

TEST_CASE("extends: the own key replaces one of the file that it excludes") {
  const Files files;
  files.write("base.yaml", kSmall + "optimizer: sgd\nschedule: {step: {factor: 0.5}}\n");
  files.write("own.yaml",
              "extends: base.yaml\n"
              "train: {max_steps: 5}\n"
              "model: {dense_classifier: {hidden_units: [4]}}\n"
              "optimizer: adamw\nschedule: cosine\n");
  const Config config = files.load("own.yaml").config;
  CHECK(config.train.max_steps == 5);
  CHECK_FALSE(config.train.epochs);
  CHECK(config.model.dense_classifier);
  CHECK(config.model.layers.empty());
  CHECK(std::holds_alternative<AdamW>(config.optimizer.kind));
  CHECK(std::holds_alternative<CosineSchedule>(config.schedule.kind));
}

TEST_CASE("extends: null removes a key but not the keys that it excludes") {
  const Files files;
  files.write("base.yaml", kModel + kData + "train: {max_steps: 70}\n");
  files.write("own.yaml", "extends: base.yaml\ntrain: {epochs: null}\n");
  CHECK(files.load("own.yaml").config.train.max_steps == 70);
}

TEST_CASE("extends: each path in a chain over folders is relative to its own file") {
  const Files files;
  std::filesystem::create_directories(files.folder.path() / "sub");
  files.write("first.yaml", kSmall + "run: {keep: 3}\n");
  files.write("sub/second.yaml", "extends: ../first.yaml\nseed: 5\n");
  files.write("third.yaml", "extends: sub/second.yaml\nrun: {log_every: 3 steps}\n");
  const Config config = files.load("third.yaml").config;
  CHECK(config.seed == 5);
  CHECK(config.run.keep == 3);
  CHECK(config.run.log_every.count == 3);
}

TEST_CASE("extends: errors name the file that has the mistakes") {
  const Files files;
  files.write("base.yaml", kModel + kData + "train: {epochs: 1, bach_size: 3}\n");
  files.write("own.yaml", "extends: base.yaml\nrun: {keap: 3}\n");
  const std::string text = files.mistakes("own.yaml");
  CHECK(text.find(files.path("base.yaml") + ":3:20: error: unknown key 'bach_size'") !=
        std::string::npos);
  CHECK(text.find(files.path("own.yaml") + ":2:7: error: unknown key 'keap'") != std::string::npos);

  files.write("lost.yaml", "extends: nowhere.yaml\n");
  CHECK(files.mistakes("lost.yaml")
            .find("lost.yaml:1:10: error: extends: there is no file " +
                  files.path("nowhere.yaml")) != std::string::npos);
  files.write("list.yaml", "extends: [a, b]\n");
  CHECK(files.mistakes("list.yaml").find("expected the path of a config, found a list") !=
        std::string::npos);
  files.write("broken.yaml", "model: {\n");
  files.write("on_broken.yaml", "extends: broken.yaml\n");
  CHECK(files.mistakes("on_broken.yaml").find("broken.yaml:") != std::string::npos);
  CHECK(files.mistakes("on_broken.yaml").find("not valid YAML") != std::string::npos);
  files.write("text.yaml", "hello\n");
  files.write("on_text.yaml", "extends: text.yaml\n");
  CHECK(files.mistakes("on_text.yaml").find("holds 'hello', expected a map") != std::string::npos);
}

TEST_CASE("extends: the error of a cycle shows it") {
  const Files files;
  files.write("a.yaml", "extends: b.yaml\n" + kSmall);
  files.write("b.yaml", "extends: a.yaml\n");
  const std::string text = files.mistakes("a.yaml");
  CHECK(text.find("b.yaml:1:10: error: extends: a file cannot extend itself") != std::string::npos);
  CHECK(text.find("a.yaml extends ") != std::string::npos);
  files.write("self.yaml", "extends: self.yaml\n" + kSmall);
  CHECK(files.mistakes("self.yaml").find("a file cannot extend itself") != std::string::npos);
}

TEST_CASE("parse_config ignores top-level keys x-... except for their anchors") {
  const std::string text =
      "x-conv: &conv {kernel_size: 5, activation: relu}\n"
      "x-none:\n"
      "model: {layers: [conv: {<<: *conv, filters: 3}, flatten, dense: 10]}\n" +
      kData + kTrain;
  const Config config = parse(text).config;
  CHECK(std::get<ConvLayer>(config.model.layers[0].kind).kernel_size == Pair{5, 5});
  CHECK(to_yaml(config).find("x-") == std::string::npos);
  CHECK(mistakes(kModel + kData + "train: {epochs: 1, x-a: 1}\n").find("unknown key 'x-a'") !=
        std::string::npos);
}

TEST_CASE("--set: a value that makes the config invalid is an error at the flag") {
  const std::string groups =
      "model: {layers: [conv: {filters: 4, groups: 2}, flatten, dense: 10]}\n" + kData + kTrain;
  CHECK(mistakes(groups, {set("model.layers[0].conv.filters", "3")})
            .find("--set model.layers[0].conv.filters: error: ") != std::string::npos);
  const LoadedConfig loaded = parse(kSmall, {set("model.layers[1].dense.units", "3")});
  CHECK(to_string(loaded.config.model.layers[1].loc) == "--set model.layers[1].dense.units");
  CHECK(to_string(loaded.config.model.layers[0].loc) == "x.yaml:1:18");
}

}  // namespace trainer::config
