// The derivative of an activation as part of the pooling gradient behind it.
#include <doctest/doctest.h>

#include <string>
#include <variant>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Node;

}  // namespace

TEST_CASE(
    "fuse_backward moves the derivative of an activation before max pooling into PoolBackward") {
  const std::string fused =
      "dense_backward_data dense_backward_weights reshape pool_backward conv_backward_weights";
  const std::string apart =
      "dense_backward_data dense_backward_weights reshape pool_backward activate_backward "
      "conv_backward_weights";
  CHECK(backward("conv: {filters: 2, activation: relu}, max_pool") == fused);
  CHECK(backward(
            "conv: {filters: 2, activation: leaky_relu}, max_pool: {pool_size: 3, strides: 2}") ==
        fused);
  CHECK(backward("conv: {filters: 2, activation: tanh}, max_pool") == apart);
  CHECK(backward("conv: {filters: 2, activation: relu}, average_pool") == apart);
  // One that stays apart does not keep the next from moving.
  CHECK(backward("conv: {filters: 2, activation: relu}, max_pool, "
                 "conv: {filters: 2, activation: tanh, padding: same}, max_pool") ==
        "dense_backward_data dense_backward_weights reshape pool_backward activate_backward "
        "conv_backward_data conv_backward_weights pool_backward conv_backward_weights");
  // The activation's output also goes elsewhere, so its gradient is a sum.
  CHECK(backward("conv: {filters: 2, activation: relu, padding: same, name: a}, "
                 "max_pool: {pool_size: 3, strides: 1, padding: same, name: b}, "
                 "add: {inputs: [a, b]}")
            .find("activate_backward") != std::string::npos);
  const Graph graph =
      training_graph(model("conv: {filters: 2, activation: relu}, max_pool"), sgd());
  for (const Node& node : graph.nodes) {
    const auto* op = std::get_if<graph::PoolBackward>(&node.op);
    if (!op) continue;
    CHECK(op->activation.kind == graph::Activation::Kind::kRelu);
    CHECK(node.inputs.size() == 3);
    CHECK(graph[node.inputs[2]].shape == graph[node.inputs[0]].shape);
  }
}

TEST_CASE("fuse_backward does not move the derivative of a term for max pooling of a sum") {
  // The gradient of the sum is that of its term a, as p has none.
  CHECK(backward("conv: {filters: 2, padding: same, activation: relu, name: a}, "
                 "max_pool: {pool_size: 3, strides: 1, padding: same, inputs: [input], name: p}, "
                 "add: {inputs: [a, p]}, max_pool") ==
        "dense_backward_data dense_backward_weights reshape pool_backward activate_backward "
        "conv_backward_weights");
  // The pooling before it still takes the derivative of its own.
  CHECK(backward("conv: {filters: 2, padding: same, activation: relu}, max_pool, "
                 "conv: {filters: 2, padding: same, activation: relu, name: a}, "
                 "max_pool: {inputs: [input], name: p}, add: {inputs: [a, p]}, max_pool") ==
        "dense_backward_data dense_backward_weights reshape pool_backward activate_backward "
        "conv_backward_data conv_backward_weights pool_backward conv_backward_weights");
  // One whose result several nodes read does not keep the pooling before it from that either.
  CHECK(backward("conv: {filters: 2, padding: same, activation: relu}, max_pool, "
                 "conv: {filters: 2, padding: same, activation: relu, name: a}, "
                 "conv: {filters: 2, padding: same, activation: relu, inputs: [a], name: b}, "
                 "add: {inputs: [a, b]}, max_pool")
            .ends_with("pool_backward conv_backward_weights"));
}

}  // namespace trainer::compile
