// What the JSON Schema describes, and what Python's jsonschema accepts by it.
#include "config/describe/schema.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files/files.h"
#include "config/support.h"
#include "support/skip.h"
#include "support/source_files.h"
#include "support/write_unsynced.h"

namespace trainer::config {
namespace {

using Json = nlohmann::json;

TEST_CASE("json_schema names all sections and allows no other keys") {
  const Json file = Json::parse(json_schema()), schema = file["else"];
  CHECK(file["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema["additionalProperties"] == false);
  CHECK(schema["required"] == Json{"model", "data", "train"});
  for (const auto& [path, value] : leaves(parse(kSmall).config)) {
    const std::string section = path.substr(0, path.find('.'));
    CHECK(schema["properties"].contains(section));
    CHECK(file["then"]["properties"].contains(section));
  }
}

TEST_CASE("settable_keys lists keys of alternatives and optional sections, which --set accepts") {
  const std::vector<std::string> keys = settable_keys();
  const std::set<std::string> names(keys.begin(), keys.end());
  CHECK(names.size() == keys.size());
  for (const std::string key :
       {"train.batch_size", "optimizer", "optimizer.sgd", "optimizer.sgd.momentum", "schedule",
        "schedule.ramp_up.peak", "model.backbone.weights", "model.input",
        "train.early_stop.patience", "data.normalize.mean", "data.train", "data.train.path"}) {
    CHECK_MESSAGE(names.contains(key), key);
  }
  for (const std::string key : {"train", "data.synthetic", "optimizer.adam.momentum"}) {
    CHECK_MESSAGE(!names.contains(key), key);
  }
  for (const auto& [path, value] : leaves(Config{})) {
    if (path.find('[') == std::string::npos) CHECK_MESSAGE(names.contains(path), path);
  }
  for (const std::string& key : keys) {
    CHECK_MESSAGE(mistakes(kSmall, {set(key, "x")}).find("unknown key") == std::string::npos, key);
  }
}

TEST_CASE("json_schema: defaults are those of the structs and are not repeated in help texts") {
  const auto check = [](const auto& self, const Schema& schema) -> void {
    for (const Field& field : schema.fields) {
      CAPTURE(field.key);
      CHECK(field.help.find("efault") == std::string::npos);
      self(self, field.schema);
      for (const Schema& item : field.schema.item) self(self, item);
    }
  };
  check(check, config_schema());
  const Json properties = Json::parse(json_schema())["else"]["properties"];
  const auto initial = [&](const char* section, const char* key) {
    return properties[section]["anyOf"][0]["properties"][key]["default"];
  };
  CHECK(initial("train", "batch_size") == static_cast<std::int64_t>(Train{}.batch_size));
  CHECK(initial("parallel", "gpus") == "all");
  CHECK(properties["optimizer"]["default"] == "adam");
  CHECK(properties["schedule"]["default"] == "constant");
}

// Every map in the schema forbids other keys, every property is described, every $ref leads
// somewhere.
void check_node(const Json& node, const Json& definitions, int& maps) {
  if (node.is_object() && node.contains("properties") && node.value("type", "") == "object") {
    ++maps;
    CHECK(node["additionalProperties"] == false);
    for (const auto& [key, property] : node["properties"].items()) {
      CAPTURE(key);
      CHECK(property.contains("description"));
    }
  }
  if (node.is_object() && node.contains("$ref") && node["$ref"].is_string()) {
    const std::string name = node["$ref"].get<std::string>().substr(std::string("#/$defs/").size());
    CHECK_MESSAGE(definitions.contains(name), name);
  }
  for (const auto& child : node) {
    if (child.is_structured()) check_node(child, definitions, maps);
  }
}

TEST_CASE("json_schema describes every part and allows no other keys") {
  const Json schema = Json::parse(json_schema());
  int maps = 0;
  check_node(schema, schema["$defs"], maps);
  CHECK(maps > 30);
}

TEST_CASE(
    "json_schema: configs/schema.json is the same text, and every shipped config refers to it") {
  const Path file = test::source_file("configs/schema.json");
  const std::string text = json_schema() + "\n";
  if (std::getenv("TRAINER_UPDATE_GOLDEN") != nullptr) write_file_atomic(file, text);
  INFO("run with TRAINER_UPDATE_GOLDEN=1, or trainer schema > configs/schema.json");
  const bool is_same = read_text_file(file) == text;  // a message would print both
  CHECK(is_same);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(file.parent_path())) {
    if (entry.path().extension() != ".yaml") continue;
    CAPTURE(entry.path().string());
    const std::string config = read_text_file(entry.path());
    const bool inside = entry.path().parent_path() != file.parent_path();
    CHECK(config.ends_with(
        concat("\n# yaml-language-server: $schema=", inside ? "../" : "", "schema.json\n")));
  }
}

// valid/ must all pass and invalid/ must all fail in check_schema.py.
TEST_CASE("json_schema: a validator of another project finds the same configs valid and invalid") {
  const TemporaryFolder folder;
  const Path valid = folder.path() / "valid", invalid = folder.path() / "invalid";
  std::filesystem::create_directories(valid);
  std::filesystem::create_directories(invalid);
  test::write_unsynced(folder.path() / "schema.json", json_schema());

  int count = 0;
  const auto add_valid = [&](const std::string& text) {
    const Config config = parse(text, {}, {{"SET", "s"}}).config;
    test::write_unsynced(valid / concat(count++, ".yaml"), text);
    test::write_unsynced(valid / concat(count++, ".yaml"), to_yaml(config));
  };
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test::source_file("configs"))) {
    if (entry.path().extension() == ".yaml") add_valid(read_text_file(entry.path()));
  }
  add_valid(kSmall);
  add_valid(rich_config());
  add_valid(kModel + "data: {format: synthetic, synthetic: {classes: 3}}\n" + kTrain);
  add_valid(
      "x-a: &a {filters: 3, batch_norm: true}\nmodel: {layers: [repeat: {times: 2, layers: "
      "[residual: {layers: [conv: *a]}]}, flatten, dense: 10]}\n" +
      kData + kTrain);
  add_valid(
      "model: {layers: [repeat: {over: {size: [3, 4], rate: [0.5, 0.25]}, layers: [conv: {filters: "
      "$size, kernel_size: $size}, dropout: $rate]}, flatten, dense: 10]}\n" +
      kData + kTrain);
  add_valid(
      "model: {backbone: {name: resnet18, drop_path: 0.1, freeze: ['[:9]', 'layer[12].*']}, head: "
      "[flatten, dense: 10]}\n" +
      kData + kTrain);
  add_valid(kSmall + "optimizer:\nschedule: cosine\nrun:\nparallel: {}\n");
  add_valid(kModel + kData + "train: {epochs: \"${N:-3}\", max_steps: null}\n");
  add_valid(kSmall + "schedule: {ramp_up: {scale: linear, by: step}}\noptimizer: {sgd: }\n");

  add_valid(kSmall + "parallel: {device: cuda, gpus: \"${NUM_GPUS:-all}\"}\n");
  add_valid(kSmall + "parallel: {gpus: 2, lr_scaling: none}\n");
  add_valid(kSmall + "parallel: {gpus: [0, \"${SECOND:-0}\"], lr_scaling: none}\n");
  add_valid(kModel + kData + "train: {epochs: 1, precision: float16, loss_scale: 1024}\n");
  add_valid(kModel + kData + "train: {epochs: 1, precision: fp16, loss_scale: dynamic}\n");
  add_valid(kModel + kData + "train: {epochs: 1, batch_size: \"${BATCH_SIZE:-64}\"}\n");

  for (const std::string& text :
       {kSmall + "parallel: {gpus: some}\n",
        kSmall + "parallel: {gpus: -1}\n",
        kSmall + "parallel: {gpus: []}\n",
        kSmall + "parallel: {gpus: [-1]}\n",
        kModel + kData + "train: {epochs: 1, precision: float16, loss_scale: auto}\n",
        kModel + kData + "train: {epochs: 1, precision: float16, loss_scale: 0}\n",
        kSmall + "speed: 1\n",
        kModel + kData,
        kModel + kData + "train: {epochs: 1, max_steps: 2}\n",
        kSmall + "optimizer: {adam: , sgd: }\n",
        kSmall + "optimizer: {clip_norm: 1}\n",
        kSmall + "optimizer: {sgd: , clip_norm: 1, clip_value: 1}\n",
        kSmall + "optimizer: {sgd: {momentun: 1}}\n",
        kSmall + "optimizer: adamm\n",
        kSmall + "run: {log_every: 10}\n",
        kSmall + "run: {log_every: 10 stepz}\n",
        kSmall + "schedule: {step: {every: 3 seconds}}\n",
        kSmall + "run: {keep: 0}\n",
        kModel + "data: {format: synthetic, synthetic: {shape: []}}\n" + kTrain,
        kModel + "data: {format: synthetic, synthetic: {shape: null}}\n" + kTrain,
        kSmall + "run: {tensorboard: 1}\n",
        kSmall + "evaluate: {top_k: 1.5}\n",
        "model: {layers: [dense: 0]}\n" + kData + kTrain,
        "model: {layers: [conv: {kernel_size: 3}]}\n" + kData + kTrain,
        "model: {layers: [conv: {filters: 3, padding: full}]}\n" + kData + kTrain,
        "model: {layers: [flaten]}\n" + kData + kTrain,
        "model: {layers: [repeat: {over: [1, 2], layers: [flatten]}]}\n" + kData + kTrain,
        "model: {layers: [repeat: {over: {x: 2}, layers: [dense: $x]}]}\n" + kData + kTrain,
        "model: {layers: [repeat: {times: 2, over: {x: [1, 2]}, layers: [dense: $x]}]}\n" + kData +
            kTrain,
        "model: {layers: [repeat: {layers: [flatten]}]}\n" + kData + kTrain,
        "model: {layers: [flatten], dense_classifier: {hidden_units: [1]}}\n" + kData + kTrain,
        "model: {layers: [flatten], input: [28, 28]}\n" + kData + kTrain,
        kModel + "data: {format: image_folders, path: d}\n" + kTrain,
        kModel + "data: {format: idx, path: d, validation_split: 1}\n" + kTrain}) {
    CHECK(!mistakes(text).empty());
    test::write_unsynced(invalid / concat(count++, ".yaml"), text);
  }
  const std::string command =
      concat("'", test::source_file("scripts/python_env.sh"), "' jsonschema pyyaml -- '",
             test::source_file("test/config/check_schema.py"), "' '", folder.path().string(), "'");
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == test::kSkippedExitCode) {
    TRAINER_SKIP_MISSING("the Python packages jsonschema and PyYAML");
  }
  CHECK(status == 0);
}

}  // namespace
}  // namespace trainer::config
