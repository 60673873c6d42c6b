// Passes over graphs that no config makes: the first node is a layer's, parameters are shared.
#include <doctest/doctest.h>

#include <stdexcept>

#include "compile/ops.h"
#include "compile/passes.h"

namespace trainer::compile {
namespace {

using graph::Activation;

struct Built {
  Graph graph;

  ValueId value(const char* name, Shape shape, Role role) {
    Value made;
    made.name = name;
    made.shape = std::move(shape);
    made.role = role;
    made.trainable = role == Role::kParameter;
    return graph.add_value(std::move(made));
  }
  ValueId image() {
    graph.inputs.push_back(value("x", {kBatch, 6, 6, 2}, Role::kInput));
    return graph.inputs.back();
  }
  ValueId kernel(const char* name = "conv/kernel") {
    return value(name, {3, 3, 2, 2}, Role::kParameter);
  }
};

const Activation kRelu{Activation::Kind::kRelu, 0};

graph::Conv same_conv() {
  graph::Conv conv;
  conv.window = {{3, 3}};
  conv.window.pad_before = conv.window.pad_after = {1, 1};
  return conv;
}

}  // namespace

TEST_CASE("differentiate adds one sum of the gradients of a parameter that several nodes use") {
  Built built;
  const ValueId x = built.value("x", {kBatch, 3}, Role::kInput);
  const ValueId labels = built.value("labels", {kBatch, 3}, Role::kInput);
  const ValueId kernel = built.value("dense/kernel", {3, 3}, Role::kParameter);
  const ValueId once = built.graph.add1(graph::Dense{}, {x, kernel}, "a", {});
  const ValueId twice = built.graph.add1(graph::Dense{}, {once, kernel}, "b", {});
  graph::Loss loss;
  loss.kind = LossKind::kMeanSquaredError;
  built.graph.outputs = {twice, built.graph.add1(loss, {twice, labels}, "loss", {})};
  const Graph graph = differentiate(built.graph, {});
  CHECK(ops(graph) ==
        "dense dense loss dense_backward_data dense_backward_weights dense_backward_weights add");
  int gradients = 0;
  for (const Value& value : graph.values) gradients += value.role == Role::kGradient ? 1 : 0;
  CHECK(gradients == 1);
  const ValueId sum = graph.nodes.back().outputs[0];
  CHECK(graph[sum].role == Role::kGradient);
  CHECK(graph[sum].name == "dense/kernel/gradient");
  CHECK(graph.nodes.back().name == "dense/kernel");

  // Both gradients that flow to `once` are summed when its maker is visited, and no more.
  Built other;
  const ValueId image = other.value("x", {kBatch, 3}, Role::kInput);
  const ValueId targets = other.value("labels", {kBatch, 3}, Role::kInput);
  const ValueId weights = other.value("dense/kernel", {3, 3}, Role::kParameter);
  const ValueId y = other.graph.add1(graph::Dense{}, {image, weights}, "a", {});
  const ValueId z = other.graph.add1(graph::Activate{kRelu}, {y}, "b", {});
  const ValueId both = other.graph.add1(graph::Add{}, {y, z}, "c", {});
  other.graph.outputs = {both, other.graph.add1(loss, {both, targets}, "loss", {})};
  CHECK(ops(differentiate(other.graph, {})) ==
        "dense activate add loss activate_backward add dense_backward_weights");
}

TEST_CASE("passes change a convolution that is the first node as any other") {
  Built built;
  Graph& graph = built.graph;
  const ValueId x = built.image(), kernel = built.kernel();
  SUBCASE("fold_batch_norm") {
    graph[kernel].trainable = false;
    const ValueId y = graph.add1(same_conv(), {x, kernel}, "conv", {});
    std::vector<ValueId> inputs{y};
    for (const char* name : {"norm/gamma", "norm/beta", "norm/mean", "norm/variance"}) {
      inputs.push_back(built.value(name, {2}, Role::kParameter));
      graph[inputs.back()].trainable = false;
    }
    graph.outputs = {graph.add1(graph::BatchNormInference{}, inputs, "norm", {})};
    for (const ValueId trained : {inputs[1], kernel}) {
      Graph other = graph;
      other[trained].trainable = true;
      CHECK(ops(fold_batch_norm(other, {})) == "conv batch_norm_inference");
    }
    CHECK(ops(fold_batch_norm(graph, {})) == "fold_batch_norm conv");
  }
  SUBCASE("fuse_activation") {
    const ValueId y = graph.add1(same_conv(), {x, kernel}, "conv", {});
    graph.outputs = {graph.add1(graph::Activate{kRelu}, {y}, "relu", {})};
    CHECK(ops(fuse_activation(graph, {})) == "conv");
    graph.outputs.push_back(y);  // given out before the activation
    CHECK(ops(fuse_activation(graph, {})) == "conv activate");
  }
  SUBCASE("trim: what the second convolution leaves unread of the first pooling is not computed") {
    // 15 pixels, pooled to 7, convolved to 5, of which 4 are read: these take 6 of the 7.
    graph[x].shape = {kBatch, 15, 15, 2};
    graph::Window window;
    window.size = window.stride = {2, 2};
    const graph::Pool pool{graph::Pool::Kind::kMax, window};
    const ValueId convolved = graph.add1(same_conv(), {x, kernel}, "conv", {});
    const ValueId first = graph.add1(pool, {convolved}, "pool", {});
    CHECK(graph[first].shape == Shape{kBatch, 7, 7, 2});
    graph::Conv valid;
    valid.window = {{3, 3}};
    const ValueId second = graph.add1(valid, {first, built.kernel("second/kernel")}, "b", {});
    CHECK(graph[second].shape == Shape{kBatch, 5, 5, 2});
    graph.outputs = {graph.add1(pool, {second}, "pool", {})};
    const Graph trimmed = trim(graph, {});
    CHECK(trimmed[second].shape == Shape{kBatch, 4, 4, 2});
    CHECK(trimmed[first].shape == Shape{kBatch, 6, 6, 2});
    // Twelve pixels of the convolution are read, which leaves the last two of the image unread.
    CHECK(trimmed[convolved].shape == Shape{kBatch, 15, 15, 2});
    CHECK_NOTHROW(verify(trimmed));
  }
}

TEST_CASE("remove_nodes and replace_uses: the given nodes are removed and all uses replaced") {
  Built built;
  Graph& graph = built.graph;
  const ValueId x = built.image();
  std::vector<ValueId> ys{x};
  for (const char* name : {"a", "b", "c"}) {
    ys.push_back(graph.add1(graph::Activate{kRelu}, {ys.back()}, name, {}));
    graph.layers.emplace_back().output = ys.back();
  }
  graph.outputs = {ys[1], ys[3]};
  replace_uses(graph, ys[1], ys[2]);
  CHECK(graph.outputs == std::vector<ValueId>{ys[2], ys[3]});
  CHECK(graph.nodes[1].inputs == std::vector<ValueId>{ys[2]});
  CHECK(graph.nodes[2].inputs == std::vector<ValueId>{ys[2]});
  CHECK(graph.layers[0].output == ys[2]);
  CHECK(graph.layers[1].output == ys[2]);
  CHECK(graph.layers[2].output == ys[3]);
  remove_nodes(graph, std::vector<bool>(1, true));  // nodes that a pass added stay
  REQUIRE(graph.nodes.size() == 2);
  CHECK(graph.nodes[0].name == "b");
  CHECK(graph.nodes[1].name == "c");
}

TEST_CASE(
    "use_moving_statistics finds UpdateStatistics among other users of the batch statistics") {
  Built built;
  Graph& graph = built.graph;
  const ValueId x = built.image();
  const auto of_norm = [&](const char* name) { return built.value(name, {2}, Role::kStatistic); };
  const ValueId gamma = of_norm("gamma"), beta = of_norm("beta"), mean = of_norm("moving_mean"),
                variance = of_norm("moving_variance");
  const auto outputs = graph.add(graph::BatchNorm{}, {x, gamma, beta}, "norm", {});
  graph.add(graph::Activate{kRelu}, {outputs[1]}, "watcher", {});
  CHECK_THROWS_WITH_AS(use_moving_statistics(graph, 0),
                       "norm: batch norm without moving statistics", std::logic_error);
  graph.add(graph::UpdateStatistics{}, {mean, variance, outputs[1], outputs[2]}, "norm", {});
  CHECK(use_moving_statistics(graph, 0) == 2);
  CHECK(std::holds_alternative<graph::BatchNormInference>(graph.nodes[0].op));
  CHECK(graph.nodes[0].inputs == std::vector<ValueId>{x, gamma, beta, mean, variance});
  CHECK(graph.nodes[0].outputs == std::vector<ValueId>{outputs[0]});
}

TEST_CASE("penalty: each trained weight with a penalty adds one term to the sum") {
  Built built;
  Graph& graph = built.graph;
  const ValueId a = built.kernel("a/kernel"), b = built.kernel("b/kernel");
  const ValueId frozen = built.kernel("c/kernel");
  graph.outputs = {built.image()};
  CHECK(penalty(graph, {}).nodes.empty());
  CHECK(penalty(graph, {}).outputs.size() == 1);
  graph[frozen].trainable = false;
  graph[frozen].l2 = 1;
  graph[graph.outputs[0]].l2 = 1;  // no parameter
  CHECK(penalty(graph, {}).nodes.empty());
  graph[a].l2 = 0.5f;
  const Graph one = penalty(graph, {});
  CHECK(ops(one) == "l2_penalty");
  CHECK(one.outputs[1] == one.nodes[0].outputs[0]);
  graph[b].l1 = 0.25f;
  const Graph two = penalty(graph, {});
  CHECK(ops(two) == "l2_penalty l2_penalty add");
  CHECK(two.nodes[0].name == "a");
  CHECK(two.nodes[1].inputs == std::vector<ValueId>{b});
  CHECK(std::get<graph::L2Penalty>(two.nodes[0].op).factor == 0.5f);
  CHECK(std::get<graph::L2Penalty>(two.nodes[1].op).l1 == 0.25f);
  CHECK(two.outputs == std::vector<ValueId>{graph.outputs[0], two.nodes[2].outputs[0]});
}

}  // namespace trainer::compile
