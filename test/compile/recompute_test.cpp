// Training graphs that compute activations again.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "compile/compile.h"
#include "compile/passes.h"
#include "support/model.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Node;
using graph::Phase;
using graph::ValueId;

Graph training(const std::string& model, const Shape& image, bool recompute) {
  Options options;
  options.update.rule = graph::SgdRule{};
  options.recompute = recompute;
  return training_graph(test::build(model, test::sample(image, 10)), options);
}

// Bytes of activations of one sample that are alive at once, counted node by node: made before and
// used later. A reshape is counted as the copy that some device might make of it.
std::int64_t peak(const Graph& graph) {
  std::map<ValueId, std::pair<std::size_t, std::size_t>> lives;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].outputs) lives[id] = {i, i};
    for (const ValueId id : graph.nodes[i].inputs) {
      if (lives.contains(id)) lives[id].second = i;
    }
  }
  std::int64_t most = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    std::int64_t bytes = 0;
    for (const auto& [id, life] : lives) {
      const graph::Value& value = graph[id];
      const bool alive = life.first <= i && i <= life.second && value.shape.batched();
      if (alive) bytes += value.shape.elements() * static_cast<std::int64_t>(size_of(value.type));
    }
    most = std::max(most, bytes);
  }
  return most;
}

bool is_forward_op(const Node& node) {
  return std::holds_alternative<graph::Conv>(node.op) ||
         std::holds_alternative<graph::BatchNorm>(node.op) ||
         std::holds_alternative<graph::Pool>(node.op) ||
         std::holds_alternative<graph::Preprocess>(node.op);
}

std::int64_t again(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.phase == Phase::kBackward && is_forward_op(node);
  });
}

const char* const kNormalised = R"({layers: [
  conv: {filters: 8, use_bias: false, padding: same}, batch_norm, activation: relu,
  conv: {filters: 8, use_bias: false, padding: same}, batch_norm, activation: relu, dropout: 0.5,
  conv: {filters: 8, use_bias: false, padding: same}, batch_norm, activation: relu,
  conv: {filters: 8, use_bias: false, padding: same}, batch_norm, activation: relu,
  flatten, dense: 10]})";

}  // namespace

TEST_CASE("recompute: nothing is computed again where it is off") {
  CHECK(again(training(kNormalised, {16, 16, 3}, false)) == 0);
}

TEST_CASE("recompute reduces the memory of the activations of the backbones") {
  struct Row {
    const char* backbone;
    const char* head;
    double most;  // share that is left
  };
  // VGG16 gains little: its peak is the gradient of the first two convolutions.
  for (const Row& row : {Row{"mobilenet_v2", "global_average_pool, dense: 10", 0.8},
                         Row{"resnet50", "global_average_pool, dense: 10", 0.8}}) {
    const std::string model =
        concat("{backbone: {name: ", row.backbone, "}, head: [", row.head, "]}");
    const Graph kept = training(model, {224, 224, 3}, false);
    const Graph cut = training(model, {224, 224, 3}, true);
    const double share = static_cast<double>(peak(cut)) / static_cast<double>(peak(kept));
    CAPTURE(row.backbone);
    CAPTURE(share);
    MESSAGE(std::string(row.backbone), ": ", peak(kept), " to ", peak(cut), " bytes per sample");
    CHECK(share < row.most);
    CHECK(again(cut) > 0);
  }
}

TEST_CASE("recompute chooses the ops that are computed again, and their places") {
  // What is made again before each gradient of a kernel; the last is that of the first convolution.
  const auto made_again = [](int blocks) {
    std::string layers;
    for (int i = 0; i < blocks; ++i) {
      layers += "conv: {filters: 8, padding: same}, batch_norm: {name: norm_" + std::to_string(i) +
                "}, activation: relu, ";
    }
    const Graph graph = training("{layers: [" + layers + "flatten, dense: 10]}", {16, 16, 8}, true);
    std::string ops;
    for (const Node& node : graph.nodes) {
      if (node.phase == Phase::kForward) continue;
      if (is_forward_op(node)) ops += node.name + " ";
      if (std::holds_alternative<graph::ConvBackwardWeights>(node.op)) ops += "| ";
    }
    return ops;
  };
  // Blocks that make as many bytes each: of cuts that save as much, the fewest.
  CHECK(made_again(2) == "norm_1 input conv2d norm_0 | | ");
  CHECK(made_again(3) == "norm_2 conv2d_1 norm_1 | | input conv2d | ");
  CHECK(made_again(6) ==
        "norm_4 conv2d_5 norm_5 | conv2d_2 norm_2 conv2d_3 norm_3 | | | input conv2d norm_0 "
        "conv2d_1 | | ");
}

TEST_CASE("recompute: a segment ends where one value is all that later nodes read") {
  // Four blocks of two convolutions around which their input goes, as ResNet's.
  std::string layers = "conv: {filters: 8, padding: same, name: x0}";
  for (const int i : {0, 1, 2, 3}) {
    layers += concat(", conv: {filters: 8, padding: same, name: a", i, "}, batch_norm: {name: n", i,
                     "}, activation: {function: gelu, name: g", i,
                     "}, conv: {filters: 8, padding: same, name: b", i, "}, add: {inputs: [x", i,
                     ", b", i, "], name: x", i + 1, "}");
  }
  const Graph graph = training("{layers: [" + layers + ", flatten, dense: 10]}", {16, 16, 8}, true);
  std::string ops;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kBackward) continue;
    if (is_forward_op(node) || std::holds_alternative<graph::Activate>(node.op)) {
      ops += node.name + " ";
    }
    if (std::holds_alternative<graph::ConvBackwardWeights>(node.op)) ops += "| ";
  }
  // Sums, which backward does not take, are where segments begin.
  CHECK(ops == "a3 n3 g3 | | a2 n2 g2 | | a1 n1 g1 | | input x0 a0 n0 g0 | | | ");
}

TEST_CASE("recompute cuts nothing in a graph of one node") {
  Graph graph;
  graph::Value x;
  x.shape = {kBatch, 4};
  x.role = graph::Role::kInput;
  graph.inputs = {graph.add_value(x)};
  graph.outputs = {graph.add1(graph::Activate{}, graph.inputs, "a", {})};
  Options options;
  options.recompute = true;
  CHECK(recompute(graph, options).nodes.size() == 1);
}

TEST_CASE("recompute updates moving statistics once, with the statistics of forward") {
  const Graph graph = training(kNormalised, {16, 16, 3}, true);
  CHECK(again(graph) > 0);
  int updates = 0;
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::UpdateStatistics>(node.op)) continue;
    ++updates;
    for (std::size_t i = 2; i < 4; ++i) {
      const Node& maker = graph.nodes[static_cast<std::size_t>(graph.producer(node.inputs[i]))];
      CHECK(maker.phase == Phase::kForward);
    }
  }
  CHECK(updates == 4);
}

TEST_CASE("recompute: copies of forward nodes have their attributes and are used") {
  const Graph graph = training(kNormalised, {16, 16, 3}, true);
  const auto text = [](const Node& node) { return node.name + " " + describe(node.op); };
  std::multiset<std::string> forward;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward) forward.insert(text(node));
  }
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kBackward || !is_forward_op(node)) continue;
    CAPTURE(node.name);
    CHECK(forward.contains(text(node)));
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId id) { return !graph.consumers(id).empty(); });
    CHECK(used);
  }
}

TEST_CASE("recompute: evaluation and a model of one layer stay as they are") {
  Options options;
  options.update.rule = graph::SgdRule{};
  options.recompute = true;
  const Graph model = test::build(kNormalised, test::sample({16, 16, 3}, 10));
  CHECK(again(evaluation_graph(model, options)) == 0);
  CHECK(again(training("{layers: [flatten, dense: 10]}", {4, 4, 1}, true)) == 0);
}

}  // namespace trainer::compile
