#include "graph/graph.h"

#include <doctest/doctest.h>

#include <sstream>

namespace trainer::graph {
namespace {

Value value(const char* name, Shape shape, Role role) {
  Value made;
  made.name = name;
  made.shape = std::move(shape);
  made.role = role;
  return made;
}

// x -> dense -> relu
struct Small {
  Graph graph;
  ValueId x, kernel, y, z;
  Small() {
    x = graph.add_value(value("x", {kBatch, 3}, Role::kInput));
    kernel = graph.add_value(value("dense/kernel", {3, 2}, Role::kParameter));
    graph.inputs = {x};
    y = graph.add1(Dense{}, {x, kernel}, "dense", {});
    z = graph.add1(Activate{{Activation::Kind::kRelu, 0}}, {y}, "relu", {});
    graph.outputs = {z};
  }
};

}  // namespace

TEST_CASE("Graph: producer(), consumers() and find() return the nodes and values") {
  Small s;
  CHECK(s.graph.producer(s.y) == 0);
  CHECK(s.graph.producer(s.x) == -1);
  CHECK(s.graph.consumers(s.y) == std::vector<int>{1});
  CHECK(s.graph.consumers(s.z).empty());
  CHECK(s.graph.find("dense/kernel") == s.kernel);
  CHECK(s.graph.find("x") == s.x);
  CHECK(s.graph.find("dense") == kNoValue);  // an activation: names of those mean nothing
  CHECK(s.graph[s.y].shape == Shape{kBatch, 2});
}

TEST_CASE(
    "Graph: add() of a node with a wrong input throws an error with the layer and its place") {
  Small s;
  try {
    s.graph.add1(Conv{}, {s.z, s.kernel}, "conv2d", {"m.yaml", 3, 5});
    FAIL("no error");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()).starts_with("m.yaml:3:5: error: conv2d: expects an image"));
  }
  CHECK_THROWS_AS(s.graph.add1(BatchNorm{}, {s.z}, "norm", {}), std::logic_error);
}

TEST_CASE("verify accepts a graph made by add()") { CHECK_NOTHROW(verify(Small().graph)); }

TEST_CASE("verify throws std::logic_error for broken invariants") {
  Small s;
  SUBCASE("use before production") { std::swap(s.graph.nodes[0], s.graph.nodes[1]); }
  SUBCASE("two producers") { s.graph.nodes[1].outputs = {s.y}; }
  SUBCASE("shape") { s.graph[s.y].shape = {kBatch, 5}; }
  SUBCASE("type") { s.graph[s.y].type = DType::kUInt8; }
  SUBCASE("phases") { s.graph.nodes[0].phase = Phase::kBackward; }
  SUBCASE("unknown id") { s.graph.nodes[1].inputs = {99}; }
  SUBCASE("output never computed") { s.graph.nodes.pop_back(); }
  SUBCASE("count of outputs") { s.graph.nodes[1].outputs.clear(); }
  SUBCASE("names") { s.graph.add_value(value("dense/kernel", {1}, Role::kSlot)); }
  SUBCASE("role of an input") { s.graph[s.x].role = Role::kActivation; }
  CHECK_THROWS_AS(verify(s.graph), std::logic_error);
}

TEST_CASE("verify accepts an activation in bfloat16") {
  Small s;
  s.graph[s.y].type = DType::kBFloat16;
  CHECK_NOTHROW(verify(s.graph));
}

TEST_CASE(
    "flops of Conv, Dense and their gradients are twice the multiply-accumulates of a sample") {
  Graph graph;
  const ValueId x = graph.add_value(value("x", {kBatch, 8, 8, 4}, Role::kInput));
  const ValueId kernel = graph.add_value(value("k", {3, 3, 2, 6}, Role::kParameter));
  const ValueId y = graph.add1(Conv{{{3, 3}}, 2, false, {}}, {x, kernel}, "c", {});
  const ValueId z = graph.add1(GlobalPool{}, {y}, "g", {});
  const ValueId w = graph.add_value(value("w", {6, 5}, Role::kParameter));
  graph.add1(Dense{}, {z, w}, "d", {});
  const std::int64_t conv = 2 * 6 * 6 * (3 * 3 * 2 * 6);
  CHECK(flops(graph, graph.nodes[0]) == conv);
  CHECK(flops(graph, graph.nodes[1]) == 0);
  CHECK(flops(graph, graph.nodes[2]) == 2 * 6 * 5);
  differentiate(graph, 0, {y}, {true, true});
  CHECK(flops(graph, graph.nodes[3]) == conv);
  CHECK(flops(graph, graph.nodes[4]) == conv);
}

TEST_CASE("print writes the values, attributes and layers of a graph") {
  std::ostringstream out;
  print(Small().graph, out);
  CHECK(out.str() ==
        "values:\n"
        "  x [batch, 3] float32 input\n"
        "  dense/kernel [3, 2] float32 parameter constant 0 frozen\n"
        "forward:\n"
        "  %2 [batch, 2] float32 = dense(x, dense/kernel)  # dense\n"
        "  %3 [batch, 2] float32 = activate {relu}(%2)  # relu\n"
        "outputs: %3\n");
}

}  // namespace trainer::graph
