// Which values are bfloat16.
#include <doctest/doctest.h>

#include <variant>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Node;
using graph::Phase;

}  // namespace

TEST_CASE("precision: activations and their gradients are bfloat16, and all other values float32") {
  Options options = sgd();
  options.activations = DType::kBFloat16;
  const Graph graph =
      training_graph(model("conv: {filters: 2}, batch_norm, max_pool, dropout: 0.1"), options);
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kUpdate) continue;
    for (const graph::ValueId id : node.outputs) {
      const graph::Value& value = graph[id];
      CAPTURE(value.name);
      CAPTURE(name_of(node.op));
      const bool logits = id == graph.outputs[0] || std::holds_alternative<graph::Loss>(node.op);
      const bool image = value.shape.rank() == 4 && value.shape.batched();
      if (value.type == DType::kUInt8) continue;
      if (logits || !value.shape.batched()) CHECK(value.type == DType::kFloat32);
      if (image) CHECK(value.type == DType::kBFloat16);
    }
  }
}

TEST_CASE(
    "precision: values behind a prepared node and logits that Dense does not compute are "
    "bfloat16") {
  Options options = sgd();
  options.activations = DType::kBFloat16;
  Graph frozen = model("conv: {filters: 2}, batch_norm, conv: {filters: 2}, flatten, dense: 3");
  freeze_layer(frozen, "conv2d");
  freeze_layer(frozen, "batch_normalization");
  const Graph graph = training_graph(frozen, options);
  REQUIRE(graph.nodes[0].phase == Phase::kPrepare);
  int dense = 0;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward) continue;
    const DType type = graph[node.outputs[0]].type;
    if (std::holds_alternative<graph::Conv>(node.op)) CHECK(type == DType::kBFloat16);
    if (!std::holds_alternative<graph::Dense>(node.op)) continue;
    CHECK(type == (++dense == 1 ? DType::kBFloat16 : DType::kFloat32));
  }
  CHECK(dense == 2);
  // Logits that a reshaping makes are those of the node before it.
  const Graph other = training_graph(
      test::build("{layers: [conv: {filters: 2, kernel_size: 4}, global_average_pool]}",
                  test::sample({4, 4, 1}, 2)),
      options);
  CHECK(other[other.outputs[0]].type == DType::kBFloat16);
}

}  // namespace trainer::compile
