#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "support/model.h"
#include "support/source_files.h"

namespace trainer::model {
namespace {

// The first node of this layer.
const graph::Node& node(const graph::Graph& graph, const std::string& layer) {
  for (const graph::Node& each : graph.nodes) {
    if (each.name == layer) return each;
  }
  throw std::runtime_error("no layer " + layer);
}

template <class T>
const T& op(const graph::Graph& graph, const std::string& layer) {
  return std::get<T>(node(graph, layer).op);
}

}  // namespace

TEST_CASE("data.normalize is the first node, with mean and std for each channel") {
  const auto graph =
      test::build("{layers: [flatten, dense: {units: 2}]}", test::sample({2, 2, 3}, 2),
                  "data: {format: synthetic, normalize: {scale: 0.5, mean: [0.25], "
                  "std: [1, 2, 3]}}\n");
  const auto& preprocess = op<graph::Preprocess>(graph, "input");
  CHECK(preprocess.scale == 0.5f);
  CHECK(preprocess.mean == std::vector<float>{0.25f, 0.25f, 0.25f});
  CHECK(preprocess.std == std::vector<float>{1, 2, 3});
  CHECK(graph[graph.inputs[0]].name == "images");
  CHECK(graph[graph.inputs[0]].type == DType::kUInt8);
  CHECK(graph[graph.inputs[1]].type == DType::kInt32);
}

TEST_CASE("build_model: the outputs are the logits and the loss") {
  const auto graph =
      test::build("{layers: [flatten, dense: {units: 3}], loss: mean_squared_error}", [] {
        auto spec = test::sample({2, 2, 1}, 3);
        spec.label_is_index = false;
        spec.image_type = DType::kFloat32;
        return spec;
      }());
  CHECK(graph[graph.inputs[1]].shape == Shape{kBatch, 3});
  CHECK(graph[graph.outputs[0]].shape == Shape{kBatch, 3});
  CHECK(graph[graph.outputs[1]].shape == Shape{kBatch});
  const auto& loss = std::get<graph::Loss>(graph.nodes.back().op);
  CHECK(loss.kind == LossKind::kMeanSquaredError);
  CHECK_FALSE(loss.gradient);
}

TEST_CASE("padding same: the odd pixel is below and to the right") {
  const auto graph = test::build(R"(
  layers:
    - conv: {filters: 2, kernel_size: 3, strides: 2, padding: same, name: even}
    - conv: {filters: 2, kernel_size: [4, 3], padding: same, dilation_rate: [1, 2], name: big}
    - max_pool: {pool_size: 3, strides: 2, padding: same, name: pool}
    - conv: {filters: 2, kernel_size: 3, padding: [1, 2, 0, 3], name: given}
    - flatten
    - dense: {units: 2})",
                                 test::sample({28, 27, 1}, 2));
  const auto& even = op<graph::Conv>(graph, "even").window;
  CHECK(even.pad_before == std::array<std::int64_t, 2>{0, 1});
  CHECK(even.pad_after == std::array<std::int64_t, 2>{1, 1});
  const auto& big = op<graph::Conv>(graph, "big").window;
  CHECK(big.pad_before == std::array<std::int64_t, 2>{1, 2});
  CHECK(big.pad_after == std::array<std::int64_t, 2>{2, 2});
  const auto& pool = op<graph::Pool>(graph, "pool").window;
  CHECK(pool.pad_before == std::array<std::int64_t, 2>{0, 0});
  CHECK(pool.pad_after == std::array<std::int64_t, 2>{1, 1});
  const auto& given = op<graph::Conv>(graph, "given").window;
  CHECK(given.pad_before == std::array<std::int64_t, 2>{1, 0});
  CHECK(given.pad_after == std::array<std::int64_t, 2>{2, 3});
}

TEST_CASE("batch_norm: scale or center false puts a constant in place of the parameter") {
  const auto graph = test::build(
      "{layers: [batch_norm: {scale: false, center: false, momentum: 0.9, epsilon: 0.1}, flatten, "
      "dense: {units: 2}]}",
      test::sample({2, 2, 3}, 2));
  const graph::Value& gamma = graph[graph.find("batch_normalization/gamma")];
  const graph::Value& beta = graph[graph.find("batch_normalization/beta")];
  CHECK_FALSE(gamma.trainable);
  CHECK(gamma.initial.a == 1);
  CHECK_FALSE(beta.trainable);
  CHECK(beta.initial.a == 0);
  CHECK(graph[graph.find("batch_normalization/moving_variance")].initial.a == 1);
  CHECK(graph.layers[1].parameters.size() == 2);
  CHECK(std::get<graph::UpdateStatistics>(graph.nodes[2].op).momentum == 0.9f);
  CHECK(std::get<graph::UpdateStatistics>(graph.nodes[2].op).epsilon == 0.1f);
}

TEST_CASE("build_model keeps the regularizer, trainability and location of a parameter") {
  const auto graph = test::build(R"(
  layers:
    - flatten
    - dense: {units: 2, kernel_regularizer: {l2: 0.01}})",
                                 test::sample({2, 2, 1}, 2));
  const graph::Value& kernel = graph[graph.find("dense/kernel")];
  CHECK(kernel.l2 == 0.01f);
  CHECK(kernel.trainable);
  CHECK(kernel.loc.line == 4);
  CHECK(graph[graph.find("dense/bias")].l2 == 0);
}

TEST_CASE("dropout: two layers have different masks") {
  const auto graph =
      test::build("{layers: [flatten, dropout: 0.2, dropout: 0.2, dense: {units: 2}]}",
                  test::sample({2, 2, 1}, 2), "seed: 99\n");
  CHECK(op<graph::Dropout>(graph, "dropout").layer != op<graph::Dropout>(graph, "dropout_1").layer);
  CHECK(op<graph::Dropout>(graph, "dropout").seed == 99);
}

TEST_CASE("activation: slopes are those of Keras without alpha") {
  const auto graph = test::build(R"(
  layers:
    - activation: leaky_relu
    - activation: {function: elu, alpha: 0.5}
    - activation: elu
    - flatten
    - dense: {units: 2})",
                                 test::sample({2, 2, 1}, 2));
  CHECK(op<graph::Activate>(graph, "activation").activation.alpha == 0.2f);
  CHECK(op<graph::Activate>(graph, "activation_1").activation.alpha == 0.5f);
  CHECK(op<graph::Activate>(graph, "activation_2").activation.alpha == 1.0f);
}

TEST_CASE("layers: names as inputs describe any acyclic graph") {
  const auto graph = test::build(R"(
  layers:
    - conv: {filters: 4, padding: same, name: left}
    - conv: {filters: 4, padding: same, name: right, inputs: [input]}
    - add: {name: sum, inputs: [left, right]}
    - concatenate: {name: all, inputs: [sum, input, left]}
    - global_max_pool
    - dense: {units: 2})",
                                 test::sample({6, 6, 3}, 2));
  CHECK(graph[node(graph, "all").outputs[0]].shape == Shape{kBatch, 6, 6, 11});
  CHECK(node(graph, "right").inputs[0] == node(graph, "left").inputs[0]);
}

TEST_CASE("dense_classifier has flatten, hidden layers and logits") {
  const auto graph =
      test::build("{dense_classifier: {hidden_units: [8, 4], dropout: 0.1, activation: tanh}}",
                  test::sample({3, 3, 1}, 7));
  std::string names;
  for (const auto& layer : graph.layers) names += concat(layer.name, " ");
  CHECK(names == "input flatten dense dropout dense_1 dropout_1 dense_2 ");
  CHECK(graph[graph.outputs[0]].shape == Shape{kBatch, 7});
  CHECK(graph[graph.find("dense_1/kernel")].shape == Shape{8, 4});
}

TEST_CASE("dense_classifier has one logit for two classes with binary_cross_entropy") {
  const auto graph =
      test::build("{dense_classifier: {hidden_units: [8]}, loss: binary_cross_entropy}",
                  test::sample({3, 3, 1}, 2));
  CHECK(graph[graph.outputs[0]].shape == Shape{kBatch, 1});
}

// test/keras: shapes that Keras itself gives.
TEST_CASE("layers have the output shapes of Keras") {
  int compared = 0;
  auto examples = nlohmann::json::array();
  for (const char* name : {"layers.json", "more_layers.json"}) {
    std::ifstream file(test::source_file(std::string("test/keras/") + name));
    REQUIRE(file);
    const auto fixture = nlohmann::json::parse(file);
    for (const auto& example : fixture["cases"]) examples.push_back(example);
  }
  for (const auto& example : examples) {
    const auto x = example["x_shape"].get<std::vector<std::int64_t>>();
    if (x.size() != 4) continue;
    const std::string name = example["name"];
    CAPTURE(name);
    const auto graph =
        test::build(concat("{layers: [", example["layer"].dump(), ", flatten, dense: {units: 2}]}"),
                    test::sample({x[1], x[2], x[3]}, 2));
    auto y = example["y_shape"].get<std::vector<std::int64_t>>();
    y[0] = kBatch;
    CHECK(graph[graph.layers[1].output].shape == Shape(y));
    std::int64_t weights = 0;
    for (const auto& [key, numbers] : example["weights"].items()) {
      weights += static_cast<std::int64_t>(numbers["values"].size());
    }
    std::int64_t ours = 0;
    for (const graph::ValueId id : graph.layers[1].parameters) {
      if (graph[id].role == graph::Role::kParameter) ours += graph[id].shape.elements();
    }
    CHECK(ours == weights);
    ++compared;
  }
  CHECK(compared > 28);
}

}  // namespace trainer::model
