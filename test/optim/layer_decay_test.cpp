// optimizer.layer_decay against timm's groups: fixtures of make_timm_layer_decay.py.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "optim/optim.h"
#include "support/model.h"
#include "support/source_files.h"

namespace trainer::optim {
namespace {

std::map<std::string, float> multipliers(const std::string& model, const std::string& optimizer,
                                         const model::SampleSpec& sample) {
  const auto config = test::build_config(model, "optimizer: {sgd: , " + optimizer + "}\n");
  graph::Graph graph = model::build_model(config.model, config.data, sample, 1);
  graph = apply_parameter_options(std::move(graph), config.optimizer);
  std::map<std::string, float> result;
  for (const graph::LayerInfo& layer : graph.layers) {
    for (const graph::ValueId id : layer.parameters) {
      result[layer.name] = graph[id].learning_rate_multiplier;
    }
  }
  return result;
}

}  // namespace

TEST_CASE(
    "layer_decay: in a list of layers, each layer and the normalization after it are a group") {
  const auto found = multipliers(
      "{layers: [{conv: {filters: 2, name: a}}, batch_norm, {conv: {filters: 2, name: b}}, "
      "flatten, "
      "{dense: {units: 3, name: c}}]}",
      "layer_decay: 0.5, learning_rate_multiplier: [{match: b, value: 3}]",
      test::sample({8, 8, 1}, 3));
  const std::map<std::string, float> expected{
      {"a", 0.25f}, {"batch_normalization", 0.25f}, {"b", 1.5f}, {"c", 1.0f}};
  CHECK(found == expected);
}

TEST_CASE("layer_decay: backbones have the groups and scales of timm") {
  std::ifstream file(test::source_file("test/optim/timm_layer_decay.json"));
  const nlohmann::json fixture = nlohmann::json::parse(file)["backbones"];
  CHECK(fixture.size() == 15);
  for (const auto& [name, expected] : fixture.items()) {
    CAPTURE(name);
    const auto config = test::build_config("{backbone: {name: " + name + ", include_top: true}}",
                                           "optimizer: {sgd: , layer_decay: 0.75}\n");
    graph::Graph graph =
        model::build_model(config.model, config.data, test::sample({224, 224, 3}, 1000), 1);
    graph = apply_parameter_options(std::move(graph), config.optimizer);
    std::vector<int> kernels(expected["kernels"].size());
    for (const graph::LayerInfo& layer : graph.layers) {
      for (const graph::ValueId id : layer.parameters) {
        REQUIRE(layer.depth < static_cast<int>(kernels.size()));
        const auto depth = static_cast<std::size_t>(layer.depth);
        if (graph[id].shape.rank() >= 2) ++kernels[depth];
        CHECK(static_cast<double>(graph[id].learning_rate_multiplier) ==
              doctest::Approx(expected["scales"][depth].get<double>()).epsilon(1e-6));
      }
    }
    CHECK(kernels == expected["kernels"].get<std::vector<int>>());
  }
}

TEST_CASE("apply_parameter_options applies both layer_decay and exclude_from_weight_decay") {
  const auto config = test::build_config(
      "{layers: [flatten, {dense: {units: 4, name: a}}, {dense: {units: 3, name: b}}]}",
      "optimizer: {adamw: {weight_decay: 0.1}, exclude_from_weight_decay: ['*/bias'], layer_decay: "
      "0.5}\n");
  const graph::Graph graph = apply_parameter_options(
      model::build_model(config.model, config.data, test::sample({2, 2, 1}, 3), 1),
      config.optimizer);
  CHECK(graph[graph.find("a/kernel")].learning_rate_multiplier == 0.5f);
  CHECK(graph[graph.find("a/kernel")].decay);
  CHECK(!graph[graph.find("a/bias")].decay);
}

}  // namespace trainer::optim
