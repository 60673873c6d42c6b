// Configs that are made to waste memory or time: how much of each is read.
#include <doctest/doctest.h>

#include "base/error.h"
#include "config/decode.h"
#include "config/support.h"
#include "config/yaml/tree.h"

namespace trainer::config {
namespace {

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::vector<Diagnostic> catch_errors(const std::string& text) {
  try {
    parse_config(text, "x.yaml", {}, {});
  } catch (const ConfigError& error) {
    return error.diagnostics();
  }
  return {};
}

std::string first_error(const std::string& text) {
  const std::vector<Diagnostic> errors = catch_errors(text);
  return errors.empty() ? "" : to_string(errors.front());
}

std::string unknown_keys(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += concat("k", i, ": 1\n");
  return text;
}

std::string layers(int count) {
  return "model: {layers: [" + repeated("relu, ", count - 2) + "flatten, dense: {units: 10}]}\n";
}

}  // namespace

TEST_CASE("config: the first thousand errors of ninety thousand unknown keys are reported") {
  const std::vector<Diagnostic> errors = catch_errors(unknown_keys(90'000));
  REQUIRE(errors.size() == kMaxDiagnostics + 1);
  CHECK(errors.back().message == "more than 1000 errors; correct these first");
  std::size_t bytes = 0;
  for (const Diagnostic& error : errors) bytes += error.message.size();
  CHECK(bytes < 2'000'000);
  CHECK(catch_errors(kSmall + unknown_keys(999)).size() == 999);
}

TEST_CASE("config: the first thousand errors of wrong entries of a list are reported") {
  CHECK(catch_errors("model: {layers: [" + repeated("1, ", 100'000) + "]}\n").size() ==
        kMaxDiagnostics + 1);
}

TEST_CASE("config: more values than any config has are an error") {
  CHECK(first_error("x-a: [" + repeated("1,", 250'000) + "]\n" + kSmall)
            .find("holds more than 200000 values") != std::string::npos);
  CHECK(first_error("x-a: [" + repeated("1,", 150'000) + "]\n" + kSmall).empty());
}

TEST_CASE("config: the copies of anchors within anchors are bounded") {
  std::string text = "[" + repeated("1,", 2000) + "]";
  const auto nested = [&](int depth) {
    std::string all = text;
    for (int i = 0; i < depth; ++i) all = concat("&a", i, " [", all, "]");
    return "x-a: " + all + "\n" + kSmall;
  };
  CHECK(first_error(nested(40)).empty());
  CHECK(first_error(nested(60)).find("aliases within anchors expand to too many values") !=
        std::string::npos);
}

TEST_CASE("config: the bytes of the copies of a long text are bounded") {
  const auto with = [](int aliases) {
    return "x-a: &a " + std::string(100'000, 'x') + "\nx-b: [" + repeated("*a ,", aliases) +
           "1]\n" + kSmall;
  };
  CHECK(first_error(with(500)).empty());
  CHECK(first_error(with(1000)).find("aliases multiply to too many values") != std::string::npos);
}

TEST_CASE("config: each key of merged maps and duplicate keys is kept once") {
  std::string map = "x-a: &a {";
  for (int i = 0; i < 20'000; ++i) map += concat("k", i, ": 1, ");
  CHECK(first_error(map + "}\nx-b: {<<: [*a , *a , *a ]}\n" + kSmall).empty());
  CHECK(first_error("x-a: {b: 1, b: 2}\n" + kSmall) ==
        "x.yaml:1:13: error: duplicate key 'b', first given at x.yaml:1:7; remove one of them");
}

TEST_CASE("config: a NUL byte in a text is an error at its place") {
  CHECK(first_error("name: \"a\\0b\"\n" + kSmall) ==
        "x.yaml:1:7: error: the text 'a\\x00b' holds a NUL byte; remove it");
}

TEST_CASE("config: more layers than the deepest models have are an error, rounds included") {
  CHECK(first_error(layers(10'001) + kData + kTrain)
            .find("model.layers: has more than 10000 layers") != std::string::npos);
  CHECK(first_error(layers(10'000) + kData + kTrain).empty());
  const std::string thousand = "{repeat: {times: 1000, layers: [";
  CHECK(first_error("model: {layers: [" + thousand + thousand + thousand +
                    "{relu: {name: a}}]}}]}}]}}]}\n" + kData + kTrain)
            .find("has more than 10000 layers") != std::string::npos);
}

TEST_CASE("config: a layer's name of more than 256 bytes is an error") {
  const auto named = [](std::size_t bytes) {
    return "model: {layers: [{flatten: {name: " + std::string(bytes, 'a') +
           "}}, dense: {units: 10}]}\n" + kData + kTrain;
  };
  CHECK(first_error(named(257)).find("has 257 bytes; a name may have 256") != std::string::npos);
  CHECK(first_error(named(256)).empty());
}

TEST_CASE(
    "config: at most twelve known names are listed in each error of thousands of wrong inputs") {
  std::string list;
  for (int i = 0; i < 3000; ++i) list += concat("{relu: {name: a", i, ", inputs: [b", i, "]}}, ");
  const std::vector<Diagnostic> errors =
      catch_errors("model: {layers: [" + list + "dense: {units: 10}]}\n" + kData + kTrain);
  CHECK(errors.size() == kMaxDiagnostics);
  for (const Diagnostic& error : errors) CHECK(error.message.size() < 400);
}

TEST_CASE("config: antialias given alone switches scaled decoding off") {
  const auto scaled = [](const std::string& keys) {
    return parse_config("data: {format: image_folder, path: p" + keys +
                            "}\nmodel: {input: [8, 8, 3], layers: [flatten, dense: {units: 2}]}\n" +
                            kTrain,
                        "x.yaml", {}, {})
        .config.data.scaled_decode;
  };
  CHECK(scaled(""));
  CHECK_FALSE(scaled(", antialias: true"));
  CHECK_FALSE(scaled(", antialias: false"));
  CHECK(scaled(", antialias: true, scaled_decode: true"));
  CHECK_FALSE(scaled(", scaled_decode: false"));
}

}  // namespace trainer::config
