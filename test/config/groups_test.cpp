// The keys of groups of layers: repeat, residual and a convolution's batch_norm.
#include <doctest/doctest.h>

#include "config/derived.h"
#include "config/support.h"

namespace trainer::config {

TEST_CASE("repeat and residual hold layers, and each other") {
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

TEST_CASE("batch_norm of a convolution: true, false, its keys") {
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

TEST_CASE("groups: a config is read back as it is written") {
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

TEST_CASE("groups: --set reaches inside, and a change of them is no detail on resume") {
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

TEST_CASE("groups: mistakes inside are reported where they stand") {
  const auto in_layers = [](const std::string& layers) {
    return mistakes("model: {layers: [" + layers + "]}\n" + kData + kTrain);
  };
  CHECK(in_layers("repeat: {layers: [flatten]}").find("missing required key 'times'") !=
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
