// Which gradients a training graph computes, and in which order.
#include <doctest/doctest.h>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Phase;
using graph::ValueId;

}  // namespace

TEST_CASE("differentiate computes gradients of trained parameters only, in reverse order") {
  CHECK(backward("conv: {filters: 2, activation: relu}, conv: {filters: 2}") ==
        "dense_backward_data dense_backward_weights reshape conv_backward_data "
        "conv_backward_weights activate_backward conv_backward_weights");
  Graph frozen = model("conv: {filters: 2}, conv: {filters: 2}");
  freeze_layer(frozen, "conv2d");
  CHECK(ops(training_graph(frozen, sgd()), Phase::kBackward) ==
        "dense_backward_data dense_backward_weights reshape conv_backward_weights");
  freeze_layer(frozen, "conv2d_1");
  CHECK(ops(training_graph(frozen, sgd()), Phase::kBackward) == "dense_backward_weights");
}

TEST_CASE("differentiate sums the gradients of a value that is used twice") {
  CHECK(backward("conv: {filters: 2, name: a}, conv: {filters: 2, padding: same, name: b}, "
                 "add: {inputs: [a, b]}") ==
        "dense_backward_data dense_backward_weights reshape conv_backward_data "
        "conv_backward_weights add conv_backward_weights");
}

TEST_CASE("differentiate: nothing is added where nothing is trained") {
  Graph frozen = model("conv: {filters: 2}");
  for (graph::Value& value : frozen.values) value.trainable = false;
  CHECK(differentiate(frozen, sgd()).nodes.size() == frozen.nodes.size());
}

TEST_CASE(
    "differentiate gives a bias that only batch norm over the batch reads a gradient of zeros") {
  const std::string end = "dense_backward_data dense_backward_weights reshape batch_norm_backward ";
  CHECK(backward("conv: {filters: 2}, batch_norm") == end + "conv_backward_weights zero_gradient");
  CHECK(backward("flatten, dense: 3, batch_norm") == end + "dense_backward_weights zero_gradient");
  CHECK(backward("conv_transpose: {filters: 2}, batch_norm") ==
        end + "zero_gradient conv_backward_weights");
  const Graph graph = training_graph(model("conv: {filters: 2}, batch_norm"), sgd());
  for (const graph::Node& node : graph.nodes) {
    if (const auto* weights = std::get_if<graph::ConvBackwardWeights>(&node.op)) {
      CHECK(!weights->bias);
    }
    if (std::holds_alternative<graph::ZeroGradient>(node.op)) {
      CHECK(graph[node.outputs[0]].name == "conv2d/bias/gradient");
      CHECK(graph[node.outputs[0]].shape == Shape{2});
      CHECK(node.name == "conv2d");
    }
  }
}

TEST_CASE("differentiate gives a bias that changes the loss its own gradient") {
  for (const std::string layers : {
           "conv: {filters: 2, activation: relu}, batch_norm",
           "conv: {filters: 2, activation: gelu}, batch_norm",
           "conv: {filters: 2}, max_pool: 2, batch_norm",
           "conv: {filters: 2, name: a}, batch_norm: {name: b}, add: {inputs: [a, b]}",
           "conv: {filters: 2}, group_norm: {groups: 1}",
       }) {
    CAPTURE(layers);
    CHECK(backward(layers).find("zero_gradient") == std::string::npos);
  }
  Graph frozen = model("conv: {filters: 2}, batch_norm");
  freeze_layer(frozen, "batch_normalization");
  CHECK(ops(training_graph(frozen, sgd()), Phase::kBackward).find("zero_gradient") ==
        std::string::npos);
}

TEST_CASE("logit_gradient_graph has the inference form and the gradient of one value alone") {
  const Graph whole = model(
      "conv: {filters: 2, activation: gelu, name: a}, batch_norm, "
      "dropout: 0.5, conv: {filters: 3, name: b}");
  ValueId a = graph::kNoValue;
  for (const graph::LayerInfo& layer : whole.layers) {
    if (layer.name == "a") a = layer.output;
  }
  Options options = sgd();
  options.update.ema = 0.9f;
  const Graph graph = logit_gradient_graph(whole, options, a);
  CHECK(ops(graph, Phase::kForward) ==
        "preprocess conv activate batch_norm_inference conv reshape dense");
  CHECK(ops(graph, Phase::kBackward) ==
        "dense_backward_data reshape conv_backward_data batch_norm_inference_backward");
  CHECK(ops(graph, Phase::kUpdate).empty());
  REQUIRE(graph.inputs.size() == 2);
  CHECK(graph[graph.inputs[1]].shape == Shape{kBatch, 2});
  REQUIRE(graph.outputs.size() == 3);
  CHECK(graph[graph.outputs[0]].shape == Shape{kBatch, 2});
  CHECK(graph[graph.outputs[1]].shape == Shape{kBatch, 10, 10, 2});
  CHECK(graph[graph.outputs[2]].shape == Shape{kBatch, 10, 10, 2});
  CHECK(graph.find("b/kernel/average") != graph::kNoValue);
  CHECK(graph.find("b/kernel") == graph::kNoValue);
}

TEST_CASE("logit_gradient_graph rejects a value that the logits do not depend on") {
  Graph graph = model("conv: {filters: 2}");
  const ValueId images = graph.nodes.front().outputs[0];
  const ValueId value = graph.add1(graph::Activate{}, {images}, "unused", {});
  CHECK_THROWS_WITH_AS(logit_gradient_graph(graph, sgd(), value),
                       doctest::Contains("the logits do not depend on"), ConfigError);
}

}  // namespace trainer::compile
