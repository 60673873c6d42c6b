// Padding computed by the convolution or the maximum behind it.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <variant>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;

}  // namespace

TEST_CASE("fold_padding adds ZeroPad before a convolution to its padding on each side") {
  const Graph graph = training_graph(
      model("zero_pad: {padding: [1, 2, 3, 4]}, conv: {filters: 2, padding: same}"), sgd());
  const auto& window = std::get<graph::Conv>(graph.nodes[1].op).window;
  const std::array<std::int64_t, 2> before{2, 4}, after{3, 5};  // top and left, bottom and right
  CHECK(window.pad_before == before);
  CHECK(window.pad_after == after);
}

TEST_CASE("fold_padding moves ZeroPad of a ReLU's output before max pooling into the pooling") {
  const Graph graph = training_graph(
      model("activation: relu, zero_pad: {padding: [1, 2, 0, 1]}, max_pool: 3"), sgd());
  const auto pool = std::ranges::find_if(graph.nodes, [](const graph::Node& node) {
    return std::holds_alternative<graph::Pool>(node.op);
  });
  REQUIRE(pool != graph.nodes.end());
  const auto& window = std::get<graph::Pool>(pool->op).window;
  const std::array<std::int64_t, 2> before{1, 0}, after{2, 1};
  CHECK(window.pad_before == before);
  CHECK(window.pad_after == after);
}

TEST_CASE("fold_padding keeps ZeroPad before max pooling where zeros could win or fill a window") {
  for (const std::string layers :
       {"activation: tanh, zero_pad: {padding: 1}, max_pool: 3",
        "batch_norm, zero_pad: {padding: 1}, max_pool: 3",
        "activation: relu, zero_pad: {padding: 1}, average_pool: 3",
        "activation: relu, zero_pad: {padding: 2}, max_pool: 2",
        "activation: relu, zero_pad: {padding: [2, 0, 0, 0]}, max_pool: 2",
        "activation: relu, zero_pad: {padding: [0, 2, 0, 0]}, max_pool: 2"}) {
    CAPTURE(layers);
    CHECK(forward(layers).find("zero_pad") != std::string::npos);
  }
}

TEST_CASE("fold_padding keeps ZeroPad where the gradient of the ReLU's output is an output") {
  const Graph graph =
      model("activation: {function: relu, name: a}, zero_pad: {padding: 1}, max_pool: 3");
  const auto layer = std::ranges::find(graph.layers, "a", &graph::LayerInfo::name);
  REQUIRE(layer != graph.layers.end());
  CHECK(ops(logit_gradient_graph(graph, sgd(), layer->output)).find("zero_pad") !=
        std::string::npos);
}

}  // namespace trainer::compile
