// Updates of the parameters, and their averages in evaluation.
#include <doctest/doctest.h>

#include <variant>
#include <vector>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Node;

}  // namespace

TEST_CASE("update: each parameter has one update with its slots, in the order of the gradients") {
  Options options = sgd();
  options.update.rule = graph::AdamRule{};
  options.update.weight_decay = 0.5f;
  options.update.ema = 0.9f;
  Graph forward_graph = model("conv: {filters: 2, kernel_regularizer: {l2: 0.25}}");
  forward_graph[forward_graph.find("conv2d/bias")].decay = false;
  forward_graph[forward_graph.find("conv2d/bias")].learning_rate_multiplier = 2;
  const Graph graph = training_graph(forward_graph, options);
  std::vector<const Node*> updates;
  for (const Node& node : graph.nodes) {
    if (std::holds_alternative<graph::Update>(node.op)) updates.push_back(&node);
  }
  REQUIRE(updates.size() == 4);
  CHECK(graph[updates[0]->inputs[0]].name == "dense/kernel");
  CHECK(graph[updates[2]->inputs[0]].name == "conv2d/kernel");
  CHECK(graph[updates[2]->inputs[1]].name == "conv2d/kernel/gradient");
  CHECK(graph[updates[2]->inputs[2]].name == "conv2d/kernel/m");
  CHECK(graph[updates[2]->inputs[4]].name == "conv2d/kernel/average");
  CHECK(graph[updates[2]->inputs[4]].initial.b == graph[updates[2]->inputs[0]].initial.b);
  CHECK(graph[updates[2]->inputs[2]].initial.b == 0);
  CHECK(updates[2]->name == "conv2d");
  CHECK(std::get<graph::Update>(updates[2]->op).l2 == 0.25f);
  CHECK(std::get<graph::Update>(updates[2]->op).weight_decay == 0.5f);
  CHECK(std::get<graph::Update>(updates[3]->op).weight_decay == 0);
  CHECK(std::get<graph::Update>(updates[3]->op).learning_rate_multiplier == 2);
  REQUIRE(graph.outputs.size() == 4);
  CHECK(graph[graph.outputs[2]].type == DType::kInt32);
  CHECK(graph[graph.outputs[3]].shape == Shape{1});
}

TEST_CASE(
    "read_averages: evaluation reads the averages of the trained parameters with optimizer.ema") {
  Options options = sgd();
  options.update.ema = 0.9f;
  Graph frozen = model("conv: {filters: 2}, conv: {filters: 2}");
  freeze_layer(frozen, "conv2d");
  const Graph graph = evaluation_graph(frozen, options);
  CHECK(graph.find("dense/kernel") == graph::kNoValue);
  CHECK(graph.find("dense/kernel/average") != graph::kNoValue);
  CHECK(graph.find("conv2d/kernel") != graph::kNoValue);
  const Graph training = training_graph(frozen, options);
  for (const graph::Value& value : graph.values) {
    if (graph::is_persistent(value.role)) CHECK(training.find(value.name) != graph::kNoValue);
  }
}

}  // namespace trainer::compile
