// Passes as a whole: what is left for evaluation and prediction, names, printing.
#include <doctest/doctest.h>

#include <set>
#include <sstream>
#include <string>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Phase;

}  // namespace

TEST_CASE("evaluation_graph removes dropout") {
  CHECK(forward("dropout: 0.5") == "preprocess dropout reshape dense loss class_rank");
  CHECK(evaluation("dropout: 0.5") == "preprocess reshape dense loss");
}

TEST_CASE("evaluation_graph: a graph for prediction has logits as output and no labels") {
  const Graph graph = evaluation_graph(model("max_pool"), sgd(), true);
  CHECK(graph.inputs.size() == 1);
  CHECK(graph.outputs.size() == 1);
  CHECK(graph[graph.outputs[0]].shape == Shape{kBatch, 2});
  CHECK(ops(graph, Phase::kForward) == "preprocess pool reshape dense");
}

TEST_CASE("tidy: layers still name their outputs after values have new numbers") {
  Graph whole = model("conv: {filters: 2}, batch_norm, activation: relu, dropout: 0.5, max_pool");
  whole.layers.emplace_back().name = "nothing";
  const Graph graph = evaluation_graph(whole, sgd());
  REQUIRE(graph.values.size() < whole.values.size());
  for (const graph::LayerInfo& layer : graph.layers) {
    CAPTURE(layer.name);
    if (layer.name == "nothing") CHECK(layer.output == graph::kNoValue);
    if (layer.name == "max_pooling2d") CHECK(graph[layer.output].shape == Shape{kBatch, 5, 5, 2});
    if (layer.name == "dense") CHECK(layer.output == graph.outputs[0]);
    for (const ValueId id : layer.parameters) CHECK(graph[id].name.starts_with(layer.name + "/"));
  }
}

TEST_CASE("tidy removes nodes that no output needs with the values that only they read") {
  const Graph whole = training_graph(model("max_pool"), sgd());
  Graph graph = whole;
  const ValueId unused =
      graph.add1(graph::Activate{}, {graph.nodes.front().outputs[0]}, "unused", {});
  graph.add1(graph::Activate{}, {unused}, "unused too", {});
  REQUIRE(graph.nodes.size() == whole.nodes.size() + 2);
  const Graph left = tidy(graph, sgd());
  CHECK(left.nodes.size() == whole.nodes.size());
  CHECK(left.values.size() == whole.values.size());
}

TEST_CASE("pass_names are unique, and Options::print_after prints the graph after a pass") {
  const auto names = pass_names();
  CHECK(names.front() == "remove_loss");
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  CHECK(names.back() == "tidy");
  std::ostringstream out;
  Options options = sgd();
  options.print_to = &out;
  options.print_after = "fuse_activation";
  training_graph(model("max_pool"), options);
  CHECK(out.str().starts_with("after fuse_activation:\nvalues:\n"));
  CHECK(out.str().find("after differentiate") == std::string::npos);
  options.print_after = "all";
  training_graph(model("max_pool"), options);
  CHECK(out.str().find("after differentiate:\n") != std::string::npos);
}

}  // namespace trainer::compile
