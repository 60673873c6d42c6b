#include <doctest/doctest.h>

#include <map>

#include "compile/compile.h"
#include "optim/optim.h"
#include "support/model.h"

namespace trainer::optim {

TEST_CASE(
    "learning_rate_multiplier scales the updates of matching layers, and the last match counts") {
  const auto config = test::build_config(
      "{layers: [flatten, {dense: {units: 3, name: block5_a}}, {dense: {units: 3, name: "
      "block5_b}}, {dense: {units: 3, name: top}}]}",
      "optimizer: {sgd: , learning_rate_multiplier: [{match: 'block5_*', value: 0.1}, "
      "{match: '*_b', value: 0}]}\n");
  graph::Graph graph = model::build_model(config.model, config.data, test::sample({2, 2, 1}, 3), 1);
  graph = scale_learning_rates(std::move(graph), config.optimizer);
  compile::Options options;
  options.update = update_spec(config.optimizer).update;
  int updates = 0;
  for (const graph::Node& node : compile::training_graph(graph, options).nodes) {
    const auto* update = std::get_if<graph::Update>(&node.op);
    if (update == nullptr) continue;
    ++updates;
    const float expected = node.name == "block5_a" ? 0.1f : node.name == "block5_b" ? 0.0f : 1.0f;
    CHECK(update->learning_rate_multiplier == expected);
  }
  CHECK(updates == 6);
}

TEST_CASE("exclude_from_weight_decay: matching parameters have no weight decay") {
  const auto config = test::build_config(
      "{layers: [conv: {filters: 2}, batch_norm, flatten, {dense: {units: 3}}]}",
      "optimizer: {adamw: {weight_decay: 0.1}, exclude_from_weight_decay: ['*/bias', "
      "'batch_normalization/*']}\n");
  graph::Graph graph = model::build_model(config.model, config.data, test::sample({4, 4, 1}, 3), 1);
  graph = exclude_from_weight_decay(std::move(graph), config.optimizer);
  compile::Options options;
  options.update = update_spec(config.optimizer).update;
  std::map<std::string, float> decays;
  const graph::Graph training = compile::training_graph(graph, options);
  for (const graph::Node& node : training.nodes) {
    if (const auto* update = std::get_if<graph::Update>(&node.op)) {
      decays[training[node.inputs[0]].name] = update->weight_decay;
    }
  }
  const std::map<std::string, float> expected{{"batch_normalization/beta", 0.0f},
                                              {"batch_normalization/gamma", 0.0f},
                                              {"conv2d/bias", 0.0f},
                                              {"conv2d/kernel", 0.1f},
                                              {"dense/bias", 0.0f},
                                              {"dense/kernel", 0.1f}};
  CHECK(decays == expected);
}

TEST_CASE("exclude_from_weight_decay: a pattern that matches no parameter is an error") {
  const auto config = test::build_config(
      "{layers: [flatten, dense: 3]}", "optimizer: {adamw: , exclude_from_weight_decay: [bias]}\n");
  const auto graph = model::build_model(config.model, config.data, test::sample({2, 2, 1}, 3), 1);
  CHECK_THROWS_WITH_AS(exclude_from_weight_decay(graph, config.optimizer),
                       doctest::Contains("no parameter is named 'bias'"), ConfigError);
}

TEST_CASE("learning_rate_multiplier: a pattern that matches no layer is an error") {
  const auto config = test::build_config(
      "{layers: [flatten, dense: 3]}",
      "optimizer: {sgd: , learning_rate_multiplier: [{match: flatten, value: 2}]}\n");
  const auto graph = model::build_model(config.model, config.data, test::sample({2, 2, 1}, 3), 1);
  CHECK_THROWS_WITH_AS(scale_learning_rates(graph, config.optimizer),
                       doctest::Contains("no layer with parameters is named 'flatten'"),
                       ConfigError);
}

}  // namespace trainer::optim
