// Pixels that no later op reads.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Node;

}  // namespace

TEST_CASE("trim: pixels that a pooling drops are not computed, down to the first convolution") {
  // 28 -> 26 -> 13 -> 11 -> 5: the second pooling reads 10 of 11, which take 12 of 13.
  const Graph graph = training_graph(model("conv: {filters: 32, activation: relu}, max_pool, conv: "
                                           "{filters: 64, activation: relu}, max_pool",
                                           {28, 28, 1}),
                                     sgd());
  const auto find_output = [&](const char* op, std::size_t which) -> Shape {
    for (const Node& node : graph.nodes) {
      if (std::string(graph::name_of(node.op)) == op && which-- == 0)
        return graph[node.outputs[0]].shape;
    }
    return {};
  };
  // The first convolution would leave pixels of the image unread, which libraries do not support.
  CHECK(find_output("conv", 0) == Shape{kBatch, 26, 26, 32});
  CHECK(find_output("pool", 0) == Shape{kBatch, 12, 12, 32});
  CHECK(find_output("conv", 1) == Shape{kBatch, 10, 10, 64});
  CHECK(find_output("pool", 1) == Shape{kBatch, 5, 5, 64});
  CHECK(find_output("conv_backward_data", 0) == Shape{kBatch, 12, 12, 32});
}

TEST_CASE("trim cuts only the max pooling of the first convolution, not others or averages") {
  const auto pooled = [](const std::string& layers) {
    const Graph graph = training_graph(model(layers, {30, 30, 1}), sgd());
    std::vector<std::int64_t> heights;
    for (const Node& node : graph.nodes) {
      if (std::string(graph::name_of(node.op)) == "pool") {
        heights.push_back(graph[node.outputs[0]].shape[1]);
      }
    }
    return heights;
  };
  // 30 -> 28 -> 14 -> 12 -> 6 and 30 -> 28 -> 14 -> 14 -> 7 -> 5 -> 2: the last reads 6 of 7.
  using Heights = std::vector<std::int64_t>;
  CHECK(pooled("conv: {filters: 2}, max_pool, conv: {filters: 2}, max_pool") == Heights{14, 6});
  CHECK(pooled("conv: {filters: 2}, max_pool, conv: {filters: 2, padding: same}, max_pool, "
               "conv: {filters: 2}, max_pool") == Heights{14, 7, 2});
  // 30 -> 26 -> 13 -> 11 -> 5: the second pooling reads 12 of 13.
  CHECK(pooled("conv: {filters: 2, kernel_size: 5}, max_pool, conv: {filters: 2}, max_pool") ==
        Heights{12, 5});
  CHECK(pooled("conv: {filters: 2, kernel_size: 5}, average_pool, conv: {filters: 2}, max_pool") ==
        Heights{13, 5});
  CHECK(pooled("batch_norm, conv: {filters: 2, kernel_size: 5}, max_pool, conv: {filters: 2}, "
               "max_pool") == Heights{13, 5});
}

TEST_CASE(
    "trim cuts a convolution in front of a cut pooling too, and the pooling reads all of it") {
  // 30 -> 30 -> 15 -> 13 -> 6: the second pooling reads 12 of 13, which take 14 of 15 and 28 of 30.
  const Graph graph =
      training_graph(model("conv: {filters: 2, kernel_size: 5, padding: same}, max_pool, "
                           "conv: {filters: 2}, max_pool",
                           {30, 30, 1}),
                     sgd());
  const auto conv = std::ranges::find_if(
      graph.nodes, [](const Node& node) { return std::holds_alternative<graph::Conv>(node.op); });
  CHECK(graph[conv->outputs[0]].shape == Shape{kBatch, 28, 28, 2});
  CHECK(std::get<graph::Conv>(conv->op).window.pad_after == std::array<std::int64_t, 2>{0, 0});
  const auto pool = std::ranges::find_if(
      graph.nodes, [](const Node& node) { return std::holds_alternative<graph::Pool>(node.op); });
  CHECK(graph[pool->outputs[0]].shape == Shape{kBatch, 14, 14, 2});
  CHECK(std::get<graph::Pool>(pool->op).window.pad_after == std::array<std::int64_t, 2>{0, 0});
}

TEST_CASE(
    "trim returns a graph whose shapes agree for any kernels, paddings, strides and pool sizes") {
  int graphs = 0;
  for (const int side : {19, 24, 30, 31}) {
    for (const int kernel : {1, 3, 5}) {
      for (const char* padding : {"same", "valid"}) {
        for (const int pool : {2, 3}) {
          for (const int stride : {1, 2}) {
            const std::string layers = concat(
                "conv: {filters: 2, kernel_size: ", kernel, ", padding: ", padding,
                "}, max_pool: {pool_size: ", pool, "}, conv: {filters: 2, padding: ", padding,
                ", strides: ", stride, "}, max_pool");
            CAPTURE(side);
            CAPTURE(layers);
            // It infers the shape of every node again.
            CHECK_NOTHROW(training_graph(model(layers, {side, side, 1}), sgd()));
            ++graphs;
          }
        }
      }
    }
  }
  CHECK(graphs == 96);
}

TEST_CASE("trim changes nothing where the pooling or another node reads every pixel") {
  Options options = sgd();
  const Graph even =
      training_graph(model("conv: {filters: 4, padding: same}, max_pool", {28, 28, 1}), options);
  const Graph shared = training_graph(
      model("conv: {filters: 4, name: c}, max_pool: {pool_size: 3, name: p}, flatten: {name: a}, "
            "flatten: {name: b, inputs: [c]}, concatenate: {inputs: [a, b]}",
            {28, 28, 1}),
      options);
  const auto conv_output = [](const Graph& graph) {
    for (const Node& node : graph.nodes) {
      if (std::holds_alternative<graph::Conv>(node.op)) return graph[node.outputs[0]].shape;
    }
    return Shape{};
  };
  CHECK(conv_output(even) == Shape{kBatch, 28, 28, 4});
  CHECK(conv_output(shared) == Shape{kBatch, 26, 26, 4});
}

TEST_CASE("trim cuts as many pixels as padding and both axes allow") {
  struct Row {
    const char* layers;
    Shape image, convolved;
  };
  const Row rows[] = {
      // 13 pixels with one of padding on either side; the pooling reads 12, which need none behind.
      {"conv: {filters: 2, padding: same}, max_pool", {13, 13, 1}, {kBatch, 12, 12, 2}},
      {"conv: {filters: 2, padding: same}, max_pool", {13, 12, 1}, {kBatch, 12, 12, 2}},
      {"conv: {filters: 2, padding: same}, max_pool", {12, 13, 1}, {kBatch, 12, 12, 2}},
      // Without padding the rest of the image would be left, which libraries do not take.
      {"conv: {filters: 2}, max_pool", {13, 13, 1}, {kBatch, 11, 11, 2}},
      {"conv: {filters: 2}, max_pool", {13, 14, 1}, {kBatch, 11, 12, 2}},
      {"conv: {filters: 2}, max_pool", {14, 13, 1}, {kBatch, 12, 11, 2}},
      // A stride reads less; the first convolution is trimmed to what the second reads.
      {"conv: {filters: 2, padding: same}, conv: {filters: 2, kernel_size: 1, strides: 2}",
       {12, 12, 1},
       {kBatch, 11, 11, 2}},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.layers));
    CAPTURE(to_string(row.image));
    const Graph graph = training_graph(model(row.layers, row.image), sgd());
    CHECK(graph[graph.nodes[1].outputs[0]].shape == row.convolved);
  }
}

TEST_CASE("trim cuts a pooled value of another op than a convolution") {
  // 49 numbers as an image, of which the pooling reads 6 x 6.
  const Graph graph =
      training_graph(model("flatten, dense: 49, reshape: [7, 7, 1], max_pool"), sgd());
  const auto reshaped =
      std::find_if(graph.values.begin(), graph.values.end(), [](const graph::Value& value) {
        return value.shape == Shape{kBatch, 7, 7, 1};
      });
  CHECK(reshaped != graph.values.end());
}

}  // namespace trainer::compile
