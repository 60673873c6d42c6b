// Batch norms on moving statistics: in evaluation and where layers are frozen.
#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <variant>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Node;
using graph::Phase;

}  // namespace

TEST_CASE("fold_batch_norm folds batch norm behind a convolution in evaluation") {
  const Graph graph =
      evaluation_graph(model("conv: {filters: 2}, batch_norm, activation: relu"), sgd());
  CHECK(ops(graph, Phase::kPrepare) == "fold_batch_norm");
  CHECK(ops(graph, Phase::kForward) == "preprocess conv reshape dense loss");
  const Node& fold = graph.nodes[0];
  CHECK(graph[fold.outputs[0]].role == graph::Role::kDerived);
  CHECK(graph[fold.outputs[0]].name == "conv2d/folded_kernel");
  CHECK(std::get<graph::Conv>(graph.nodes[2].op).activation.kind == graph::Activation::Kind::kRelu);
  CHECK(std::get<graph::Conv>(graph.nodes[2].op).bias);
  CHECK(evaluation("conv: {filters: 2, activation: relu}, batch_norm") ==
        "preprocess conv batch_norm_inference reshape dense loss");
  CHECK(evaluation("conv: {filters: 2, name: a}, batch_norm: {name: b}, add: {inputs: [a, b]}") ==
        "preprocess conv batch_norm_inference add reshape dense loss");
}

TEST_CASE("fold_batch_norm: those behind a batch norm that cannot be folded are folded") {
  const Graph graph = evaluation_graph(
      model("max_pool, batch_norm: {name: first}, conv: {filters: 2, name: a}, "
            "batch_norm: {name: b}, conv: {filters: 3, name: c}, batch_norm: {name: d}"),
      sgd());
  CHECK(ops(graph, Phase::kForward) ==
        "preprocess pool batch_norm_inference conv conv reshape dense loss");
  CHECK(ops(graph, Phase::kPrepare) == "fold_batch_norm fold_batch_norm");
  for (const auto& [at, conv, norm] : {std::tuple{0, "a", "b"}, {1, "c", "d"}}) {
    const Node& fold = graph.nodes[static_cast<std::size_t>(at)];
    std::string inputs;
    for (const graph::ValueId id : fold.inputs) inputs += graph[id].name + " ";
    CHECK(inputs == concat(conv, "/kernel ", conv, "/bias ", norm, "/gamma ", norm, "/beta ", norm,
                           "/moving_mean ", norm, "/moving_variance "));
    CHECK(graph[fold.outputs[0]].shape == graph[fold.inputs[0]].shape);
    CHECK(graph[fold.outputs[1]].shape == graph[fold.inputs[1]].shape);
  }
}

TEST_CASE("training_graph folds frozen batch norms on moving statistics and does not update them") {
  Graph frozen = model("conv: {filters: 2}, batch_norm, conv: {filters: 2}, batch_norm");
  freeze_layer(frozen, "conv2d");
  freeze_layer(frozen, "batch_normalization");
  const Graph graph = training_graph(frozen, sgd());
  CHECK(ops(graph, Phase::kPrepare) == "fold_batch_norm");
  CHECK(ops(graph, Phase::kForward) ==
        "preprocess conv conv batch_norm reshape dense loss class_rank");
  std::string updated;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kUpdate) updated += concat(graph[node.inputs[0]].name, " ");
  }
  CHECK(updated ==
        "batch_normalization_1/moving_mean dense/kernel dense/bias batch_normalization_1/gamma "
        "batch_normalization_1/beta conv2d_1/kernel conv2d_1/bias ");
}

TEST_CASE("freeze: gradients flow through a frozen batch norm behind trained layers") {
  Graph frozen = model("conv: {filters: 2}, batch_norm");
  freeze_layer(frozen, "batch_normalization");
  const Graph graph = training_graph(frozen, sgd());
  CHECK(ops(graph, Phase::kPrepare).empty());
  CHECK(ops(graph, Phase::kBackward) ==
        "dense_backward_data dense_backward_weights reshape batch_norm_inference_backward "
        "conv_backward_weights");
}

}  // namespace trainer::compile
