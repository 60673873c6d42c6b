// The keys of groups of layers: repeat, residual and a convolution's batch_norm.
#include <doctest/doctest.h>

#include "config/derived.h"
#include "config/support.h"

namespace trainer::config {

TEST_CASE("repeat and residual may hold layers and each other") {
  const auto layers = parse_layers(
      "repeat: {times: 2, layers: [residual: {layers: [{conv: {filters: 3}}, dropout], shortcut: "
      "[{conv: {filters: 3, kernel_size: 1}}], activation: relu}]}, flatten, dense: 10");
  REQUIRE(layers.size() == 3);
  const auto& repeat = std::get<RepeatLayer>(layers[0].kind);
  CHECK(repeat.times == 2);
  REQUIRE(repeat.layers.size() == 1);
  const auto& residual = std::get<ResidualLayer>(repeat.layers[0].kind);
  CHECK(residual.layers.size() == 2);
  CHECK(residual.shortcut.size() == 1);
  CHECK(residual.activation == Activation::kRelu);
  CHECK(to_string(residual.layers[0].loc).starts_with("x.yaml:1:"));
}

TEST_CASE("batch_norm of a convolution may be true, false or a map of its keys") {
  const auto batch_norm = [](const std::string& value) {
    const auto layers = parse_layers("conv: {filters: 3, batch_norm: " + value + "}");
    return std::get<ConvLayer>(layers[0].kind).batch_norm;
  };
  REQUIRE(batch_norm("true"));
  CHECK(batch_norm("true")->momentum == BatchNormLayer{}.momentum);
  CHECK_FALSE(batch_norm("false"));
  CHECK_FALSE(batch_norm("null"));
  CHECK(batch_norm("{momentum: 0.9}")->momentum == 0.9);
  CHECK(mistakes("model: {layers: [conv: {filters: 3, batch_norm: yes}]}\n" + kData + kTrain)
            .find("expected a map with the keys momentum") != std::string::npos);
}

TEST_CASE("groups: a written config is read back to the same values") {
  const Config config =
      parse(
          "model: {layers: [repeat: {times: 2, layers: [residual: {layers: [conv: {filters: 1, "
          "batch_norm: true}]}]}, flatten, dense: 10]}\n" +
          kData + kTrain)
          .config;
  const std::string text = to_yaml(config);
  CHECK(text.find("shortcut") == std::string::npos);
  CHECK(to_yaml(parse(text).config) == text);
}

TEST_CASE("repeat over values: each round has the values of its place") {
  const auto layers = parse_layers(
      "repeat: {over: {size: [8, 16, 24], step: [1, [1, 2], 2]}, layers: [conv: {filters: $size, "
      "strides: $step}, repeat: {times: 2, layers: [{conv: {filters: '$size', name: a}}]}]}, "
      "flatten, dense: 10");
  const auto& repeat = std::get<RepeatLayer>(layers[0].kind);
  CHECK_FALSE(repeat.times);
  REQUIRE(repeat.rounds.size() == 3);
  CHECK(repeat.count_rounds() == 3);
  const Pair strides[] = {{1, 1}, {1, 2}, {2, 2}};
  for (std::int64_t round = 1; round <= 3; ++round) {
    CAPTURE(round);
    const std::vector<Layer>& inside = repeat.find_layers(round);
    REQUIRE(inside.size() == 2);
    const auto& conv = std::get<ConvLayer>(inside[0].kind);
    CHECK(conv.filters == 8 * round);
    CHECK(conv.strides == strides[round - 1]);
    const auto& inner = std::get<RepeatLayer>(inside[1].kind);
    CHECK(inner.times == 2);
    CHECK(std::get<ConvLayer>(inner.layers[0].kind).filters == 8 * round);
    CHECK(to_string(inside[0].loc).starts_with("x.yaml:1:"));
  }
}

TEST_CASE("repeat over values takes words, true and short forms of layers as values") {
  const auto layers = parse_layers(
      "repeat: {over: {norm: [true, false], function: [relu, selu], kind: [dropout, {dropout: "
      "0.25}]}, layers: [conv: {filters: 2, batch_norm: $norm, activation: $function}, $kind]}, "
      "flatten, dense: 10");
  const auto& repeat = std::get<RepeatLayer>(layers[0].kind);
  REQUIRE(repeat.rounds.size() == 2);
  const auto conv = [&](std::int64_t round) {
    return std::get<ConvLayer>(repeat.find_layers(round)[0].kind);
  };
  CHECK(conv(1).batch_norm);
  CHECK_FALSE(conv(2).batch_norm);
  CHECK(conv(1).activation == Activation::kRelu);
  CHECK(conv(2).activation == Activation::kSelu);
  CHECK(std::get<DropoutLayer>(repeat.find_layers(1)[1].kind).rate == 0.5);
  CHECK(std::get<DropoutLayer>(repeat.find_layers(2)[1].kind).rate == 0.25);
}

TEST_CASE("repeat over values: an inner repeat reads its own values before the outer ones") {
  const auto layers = parse_layers(
      "repeat: {over: {sizes: [[1, 2], [3, 4]], x: [5, 6]}, layers: [conv: {filters: $x}, repeat: "
      "{over: {x: $sizes}, layers: [conv: {filters: $x}]}]}, flatten, dense: 10");
  const auto& outer = std::get<RepeatLayer>(layers[0].kind);
  std::vector<std::int64_t> filters;
  for (std::int64_t round = 1; round <= outer.count_rounds(); ++round) {
    const std::vector<Layer>& inside = outer.find_layers(round);
    filters.push_back(std::get<ConvLayer>(inside[0].kind).filters);
    const auto& inner = std::get<RepeatLayer>(inside[1].kind);
    for (std::int64_t i = 1; i <= inner.count_rounds(); ++i) {
      filters.push_back(std::get<ConvLayer>(inner.find_layers(i)[0].kind).filters);
    }
  }
  CHECK(filters == std::vector<std::int64_t>{5, 1, 2, 6, 3, 4});
}

TEST_CASE("repeat over values: the effective config has the rounds and is read back") {
  const std::string text =
      "model: {layers: [repeat: {over: {size: [3, 4]}, layers: [{conv: {filters: $size, name: a}}, "
      "{relu: {inputs: [a]}}]}, {conv: {filters: 1, inputs: [a_2]}}, flatten, dense: 10]}\n" +
      kData + kTrain;
  const Config config = parse(text).config;
  const std::string effective = to_yaml(config);
  CHECK(effective.find("rounds") != std::string::npos);
  CHECK(effective.find("times") == std::string::npos);
  CHECK(effective.find("over") == std::string::npos);
  CHECK(to_yaml(parse(effective).config) == effective);
  CHECK(resume_changes(config, parse(effective).config).empty());
  // Other values are other layers.
  const Config other = parse(text, {set("model.layers[0].repeat.over", "{size: [3, 5]}")}).config;
  REQUIRE(resume_changes(config, other).size() == 1);
  CHECK(resume_changes(config, other)[0].severity == Change::Severity::kError);
}

TEST_CASE("repeat over values: inputs outside name the number of the round") {
  const auto in_layers = [](const std::string& input) {
    return mistakes(
        "model: {layers: [repeat: {over: {size: [3, 4]}, layers: [{conv: {filters: $size, name: "
        "a}}]}, {conv: {filters: 1, inputs: [" +
        input + "]}}, flatten, dense: 10]}\n" + kData + kTrain);
  };
  CHECK(in_layers("a_2").empty());
  CHECK(in_layers("a_3").find("unknown layer 'a_3'") != std::string::npos);
  CHECK(in_layers("a").find("unknown layer 'a'") != std::string::npos);
}

TEST_CASE("repeat over values: nested rounds that would exhaust the memory are an error") {
  std::string values;
  for (int i = 0; i < 1000; ++i) values += "1, ";
  std::string layers = "flatten";
  for (const char* name : {"c", "b", "a"}) {
    layers = concat("repeat: {over: {", name, ": [", values, "]}, layers: [conv: {filters: $", name,
                    "}, ", layers, "]}");
  }
  CHECK(mistakes("model: {layers: [" + layers + ", flatten, dense: 10]}\n" + kData + kTrain)
            .find("these are too many rounds") != std::string::npos);
}

TEST_CASE("groups: --set replaces a key inside, and the change is an error on resume") {
  const std::string text =
      "model: {layers: [repeat: {times: 2, layers: [conv: {filters: 3, batch_norm: true}]}, "
      "flatten, dense: 10]}\n" +
      kData + kTrain;
  const Config config =
      parse(text, {set("model.layers[0].repeat.times", "5"),
                   set("model.layers[0].repeat.layers[0].conv.batch_norm.momentum", "0.5")})
          .config;
  const auto& repeat = std::get<RepeatLayer>(config.model.layers[0].kind);
  CHECK(repeat.times == 5);
  CHECK(std::get<ConvLayer>(repeat.layers[0].kind).batch_norm->momentum == 0.5);
  const auto changes = resume_changes(parse(text).config, config);
  REQUIRE(changes.size() == 2);
  for (const Change& change : changes) CHECK(change.severity == Change::Severity::kError);
}

TEST_CASE("groups: mistakes inside are errors at their places") {
  const auto in_layers = [](const std::string& layers) {
    return mistakes("model: {layers: [" + layers + "]}\n" + kData + kTrain);
  };
  CHECK(in_layers("repeat: {layers: [flatten]}")
            .find("missing required key, exactly one of: times, over, rounds") !=
        std::string::npos);
  CHECK(in_layers("repeat: {times: 2}").find("repeat: missing required key 'layers'") !=
        std::string::npos);
  CHECK(in_layers("repeat: {times: 0, layers: [flatten]}").find("must be at least 1") !=
        std::string::npos);
  CHECK(in_layers("repeat: {times: 2, layers: []}").find("expected at least 1 entry") !=
        std::string::npos);
  CHECK(in_layers("repeat: {times: 2, layers: [flaten]}").find("did you mean 'flatten'?") !=
        std::string::npos);
  CHECK(in_layers("residual: {layers: [add]}")
            .find("model.layers[0].residual.layers[0].add: needs 'inputs'") != std::string::npos);
  // Behind a round its names have numbers.
  const std::string inside = "repeat: {times: 2, layers: [{conv: {filters: 1, name: a}}]}, ";
  CHECK(in_layers(inside + "add: {inputs: [a_1, a_2]}, flatten, dense: 10").empty());
  CHECK(
      in_layers(inside + "add: {inputs: [a, a_2]}, flatten, dense: 10").find("unknown layer 'a'") !=
      std::string::npos);
}

}  // namespace trainer::config
