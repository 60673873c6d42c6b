#include <doctest/doctest.h>

#include <filesystem>

#include "base/text.h"
#include "config/describe/emit.h"
#include "config/support.h"
#include "support/source_files.h"

namespace trainer::config {
namespace {

void check_round_trip(const Config& config) {
  const std::string text = to_yaml(config);
  CAPTURE(text);
  const Config again = parse_config(text, "effective.yaml", {}, {}).config;
  CHECK(leaves(again) == leaves(config));
  CHECK(to_yaml(again) == text);
}

TEST_CASE("to_yaml: any config is read back to the same values") {
  check_round_trip(parse(kSmall).config);
  check_round_trip(parse(rich_config()).config);
  check_round_trip(parse("model: {dense_classifier: {hidden_units: [256, 32], dropout: 0.1}}\n"
                         "data: {format: idx, train: {images: \"a$$b\", labels: ' c'}}\n"
                         "train: {epochs: 0.5, early_stop: {patience: 2}}\n"
                         "schedule: {ramp_up: {scale: linear}}\noptimizer: sgd\n",
                         {set("data.validation_split", "0.5")})
                       .config);
  for (const char* schedule : {"step", "cosine", "polynomial", "constant",
                               "{cosine: {decay_over: 10 steps}}", "{step: {every: 2 epochs}}"}) {
    SUBCASE(schedule) { check_round_trip(parse(kSmall + "schedule: " + schedule + "\n").config); }
  }
}

TEST_CASE("to_yaml: any text is read back to the same text") {
  for (const std::string name :
       {"",   "null", "~", "yes",  "010", "1e3",          "-",   "a: b", "#x", "'",
        "\"", "\\",   "$", "${X}", "$$",  "\n\t\x01\x7f", "ü日", " a ",  "[",  "*a"}) {
    SUBCASE(("text '" + name + "'").c_str()) {
      Config config = parse(kSmall).config;
      config.data.path = "p" + name;
      if (is_line_of_text(name)) config.data.classes = {name};
      check_round_trip(config);
    }
  }
}

TEST_CASE("to_yaml: names of classes as keys may be any text that a line can hold") {
  for (const std::string name :
       {"a: b", "#x", "'",   "\"",   "\\",   "$", "${X}", "$$", "a #b", " a ",     "[",  "*a",
        "<<",   "?",  "- a", "null", "true", "1", "a\tb", "",   "x-y",  "extends", "ü日"}) {
    CAPTURE(name);
    Config config = parse(kSmall).config;
    config.train.class_weight.emplace();
    config.train.class_weight->weights = {{name, 2.0}, {"other", 1.0}};
    const std::string text = to_yaml(config);
    CAPTURE(text);
    const Config again = parse_config(text, "effective.yaml", {}, {}).config;
    REQUIRE(again.train.class_weight);
    CHECK(again.train.class_weight->weights == config.train.class_weight->weights);
    CHECK(to_yaml(again) == text);
    const Config commented = parse_config(commented_yaml(config), "new.yaml", {}, {}).config;
    CHECK(commented.train.class_weight->weights == config.train.class_weight->weights);
  }
}

TEST_CASE("to_yaml writes quoted texts with only the necessary escapes") {
  Config config = parse(kSmall).config;
  config.data.path = "a: b\t~\"$\x7f";
  CHECK(to_yaml(config).find("path: \"a: b\\x09~\\\"$$\\x7f\"\n") != std::string::npos);
}

TEST_CASE("to_yaml writes all digits of whole numbers") {
  const LoadedConfig loaded = parse(kModel + kData +
                                    "train: {epochs: 100000}\n"
                                    "run: {log_every: 1000000 steps}\n");
  check_round_trip(loaded.config);
  CHECK(to_yaml(loaded.config).find("epochs: 100000\n") != std::string::npos);
  CHECK(to_string(loaded.config.run.log_every) == "1000000 steps");
}

TEST_CASE("leaves of a config are values by dotted path in the order of the schema") {
  const auto all = leaves(parse(rich_config()).config);
  const auto value = [&](const std::string& path) {
    for (const auto& [key, text] : all) {
      if (key == path) return text;
    }
    return std::string("(missing)");
  };
  CHECK(all.front().first == "name");
  CHECK(value("model.input") == "[32, 24, 3]");
  CHECK(value("model.layers[2].conv.filters") == "32");
  CHECK(value("model.layers[2].conv.kernel_size") == "[3, 5]");
  CHECK(value("model.layers[2].conv.kernel_initializer") == "he_normal");
  CHECK(value("model.layers[2].conv.bias_initializer.constant.value") == "0.1");
  CHECK(value("model.layers[2].conv.inputs") == "[z]");
  CHECK(value("optimizer.rmsprop.learning_rate") == "5.0e-04");
  CHECK(value("schedule.exponential.decay_every") == "100 steps");
  CHECK(value("data.normalize.std") == "[0.5]");
  CHECK(value("train.epochs") == "null");
  CHECK(value("train.precision") == "bfloat16");
}

TEST_CASE("to_yaml: every shipped config is loaded and read back to the same values") {
  int count = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test::source_file("configs"))) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    SUBCASE(entry.path().filename().c_str()) {
      const Config config = load_config(entry.path(), {}, {}).config;
      CHECK(config.name == entry.path().stem().string());
      check_round_trip(config);
    }
  }
  CHECK(count >= 16);
}

}  // namespace
}  // namespace trainer::config
