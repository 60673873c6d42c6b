// Where the frozen start of a model is cut off, and what both parts are.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "compile/compile.h"
#include "compile/ops.h"
#include "compile/passes.h"
#include "support/model.h"

namespace trainer::compile {
namespace {

// Layers a b c and so on are named in the text; those of `frozen` are not trained.
Graph model(const std::string& layers, const std::set<std::string>& frozen) {
  Graph graph = test::build("{layers: [" + layers + ", flatten, {dense: {units: 2, name: last}}]}",
                            test::sample({12, 12, 2}, 2));
  for (graph::LayerInfo& layer : graph.layers) layer.trainable = !frozen.contains(layer.name);
  return graph;
}

const char* const kA = "conv: {filters: 2, padding: same, name: a}";

}  // namespace

TEST_CASE("split_frozen cuts behind frozen layers at the last value that is all the rest reads") {
  struct Row {
    std::string layers;
    std::set<std::string> frozen;
    const char* cut;  // the last layer before it
    const char* prefix;
  };
  const std::string a = kA;
  const Row rows[] = {
      {a + ", conv: {filters: 2, name: b}", {"a"}, "a", "preprocess conv"},
      {a + ", conv: {filters: 2, name: b}", {"a", "b"}, "flatten", "preprocess conv conv reshape"},
      {a + ", max_pool: {name: p}, conv: {filters: 2, name: b}",
       {"a"},
       "p",
       "preprocess conv pool"},
      // Padding belongs to the convolution behind it.
      {a + ", zero_pad: {padding: 1, name: z}, conv: {filters: 2, name: b}",
       {"a"},
       "a",
       "preprocess conv"},
      {a + ", zero_pad: {padding: 1, name: z}, conv: {filters: 2, name: b}, conv: {filters: 2}",
       {"a", "b"},
       "b",
       "preprocess conv zero_pad conv"},
      // What differs from one time to the next.
      {a + ", dropout: 0.5, conv: {filters: 2, name: b}", {"a", "b"}, "a", "preprocess conv"},
      {a + ", batch_norm: {name: n}", {"a"}, "a", "preprocess conv"},
      {a + ", batch_norm: {name: n}",
       {"a", "n"},
       "flatten",
       "preprocess conv batch_norm_inference reshape"},
      // Branches: one value once they have met.
      {a + ", conv: {filters: 2, padding: same, name: b}, add: {inputs: [a, b], name: s}",
       {"a", "b"},
       "flatten",
       "preprocess conv conv add reshape"},
      {a + ", conv: {filters: 2, padding: same, name: b}, add: {inputs: [a, b], name: s}",
       {"a"},
       "a",
       "preprocess conv"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.layers);
    const FrozenSplit split = split_frozen(model(row.layers, row.frozen), {});
    CHECK(split.reason.empty());
    CHECK(split.layer == row.cut);
    CHECK(ops(split.prefix) == row.prefix);
  }
}

TEST_CASE("split_frozen gives the reason where there are no frozen layers at the start to cut") {
  struct Row {
    std::string layers;
    std::set<std::string> frozen;
    const char* reason;
  };
  const std::string a = kA;
  const char* const none = "no layers at the start of the model are frozen";
  const Row rows[] = {
      {a, {}, none},
      {a + ", conv: {filters: 2, name: b}", {"b"}, none},
      {"max_pool, " + a, {}, none},  // nothing with weights
      {"zero_pad: {padding: 1}, " + a, {}, none},
      // The images are needed besides.
      {a + ", average_pool: {name: p, inputs: [input], pool_size: 1}, add: {inputs: [a, p]}",
       {},
       none},
      {a + ", conv: {filters: 2, padding: same, name: b, inputs: [input]}, add: {inputs: [a, b]}",
       {"a"},
       none},
      {a, {"a", "last"}, "no layer is trained"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.layers);
    const FrozenSplit split = split_frozen(model(row.layers, row.frozen), {});
    CHECK(split.reason == row.reason);
    CHECK(split.layer.empty());
  }
}

TEST_CASE("feature_graph: the features of any layer have the type that the suffix reads") {
  Options options;
  options.activations = DType::kBFloat16;
  const std::string dense = "flatten, dense: {units: 3, name: d}, dense: {units: 4}";
  for (const auto& [layers, last] :
       {std::pair{dense, "d"}, std::pair{std::string(kA), "flatten"}}) {
    const Graph whole = model(layers, {"a", "d"});
    const FrozenSplit split = split_frozen(whole, options);
    CHECK(split.layer == last);
    const Graph features = feature_graph(split, options);
    CHECK(features[features.outputs[0]].type == split.suffix[split.suffix.inputs[0]].type);
    const Graph logits = evaluation_graph(split.suffix, options, true);
    CHECK(logits[logits.outputs[0]].type == DType::kFloat32);
  }
}

TEST_CASE("split_frozen joins prefix and suffix at one value") {
  Options options;
  options.activations = DType::kBFloat16;
  const Graph whole = model(std::string(kA) + ", conv: {filters: 3, name: b}", {"a"});
  const FrozenSplit split = split_frozen(whole, options);
  CHECK(ops(split.suffix) == "conv reshape dense loss");
  CHECK(split.prefix.inputs == std::vector<ValueId>{whole.inputs[0]});
  REQUIRE(split.prefix.outputs.size() == 1);
  const ValueId joint = split.prefix.outputs[0];
  CHECK(split.prefix[joint].shape == Shape{kBatch, 12, 12, 2});
  CHECK(split.prefix[joint].role == Role::kActivation);
  CHECK(split.suffix.inputs == std::vector<ValueId>{joint, whole.inputs[1]});
  CHECK(split.suffix.outputs == whole.outputs);
  CHECK(split.suffix[joint].role == Role::kInput);
  CHECK(split.suffix[joint].type == DType::kBFloat16);
  CHECK_NOTHROW(verify(split.prefix));
  CHECK_NOTHROW(verify(split.suffix));
}

TEST_CASE("split_frozen does not cut at a value that nothing reads") {
  Graph graph = model(std::string(kA) + ", conv: {filters: 2, name: b}", {"a"});
  const ValueId a = graph.nodes[1].outputs[0];
  graph.add(graph::Activate{{graph::Activation::Kind::kRelu}}, {a}, "unused", {});
  std::rotate(graph.nodes.begin() + 2, graph.nodes.end() - 1, graph.nodes.end());
  CHECK(ops(graph) == "preprocess conv activate conv reshape dense loss");
  const FrozenSplit split = split_frozen(graph, {});
  CHECK(split.layer == "a");
  CHECK(split.prefix.outputs == std::vector<ValueId>{a});
}

}  // namespace trainer::compile
