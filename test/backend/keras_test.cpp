// Single layers and losses give Keras's numbers, on the backend and in the reference.
// Fixtures: test/keras/make_fixtures.py.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/harness.h"
#include "support/model.h"
#include "support/source_files.h"

namespace trainer::test::keras_test {
namespace {

using graph::Graph;
using graph::ValueId;
using nlohmann::json;

json read(const std::string& file) {
  return json::parse(std::ifstream(source_file("test/keras/" + file)));
}

const json& fixture() {
  static const json content = read("layers.json");
  return content;
}

std::vector<double> numbers(const json& values) { return values.get<std::vector<double>>(); }

// The name that Keras gives to a parameter: the part after the layer's, but for a depthwise kernel.
std::string keras_name(const json& weights, const std::string& name) {
  const std::string last = name.substr(name.rfind('/') + 1);
  return last == "depthwise_kernel" && !weights.contains(last) ? "kernel" : last;
}

// One layer of a config with its gradients: inputs x, dy; outputs y, dx, the gradients of
// `weights`.
Graph layer_graph(const json& c, std::vector<std::string>& weights) {
  auto shape = c["x_shape"].get<std::vector<std::int64_t>>();
  // A config's images have height and width: rows are made of images of one pixel.
  const bool rows = shape.size() == 2;
  const Shape image = rows ? Shape{1, 1, shape[1]} : Shape{shape[1], shape[2], shape[3]};
  model::SampleSpec spec = sample(image, 2);
  spec.image_type = DType::kFloat32;
  const std::string text = "{layers: [" + std::string(rows ? "flatten, " : "") + c["layer"].dump() +
                           ", flatten, dense: 2]}";
  Graph graph = build(text, spec);
  const graph::LayerInfo& layer = graph.layers[rows ? 2 : 1];
  const ValueId y = layer.output;
  while (graph.nodes.back().name != layer.name) graph.nodes.pop_back();
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    graph::Value& value = graph.values[i];
    if (graph::is_persistent(value.role) && graph.consumers(static_cast<ValueId>(i)).empty()) {
      value.role = graph::Role::kActivation;
    }
  }
  // What normalises the images goes; its output is the input.
  const ValueId x = graph.nodes[0].outputs[0];
  graph.nodes.erase(graph.nodes.begin());
  graph[x].role = graph::Role::kInput;
  const ValueId dy = graph.add_value(
      {"dy", graph[y].shape, DType::kFloat32, graph::Role::kInput, {}, {}, false, 0, 1, true});
  graph.inputs = {x, dy};

  std::map<ValueId, ValueId> gradients{{y, dy}};
  for (int i = static_cast<int>(graph.nodes.size()) - 1; i >= 0; --i) {
    const graph::Node node = graph.nodes[static_cast<std::size_t>(i)];
    std::vector<ValueId> given;
    bool reached = false;
    for (const ValueId id : node.outputs) {
      given.push_back(gradients.contains(id) ? gradients[id] : graph::kNoValue);
      reached = reached || gradients.contains(id);
    }
    if (!reached) continue;
    std::vector<bool> wanted;
    for (const ValueId id : node.inputs)
      wanted.push_back(graph[id].role != graph::Role::kStatistic);
    const auto made = graph::differentiate(graph, i, given, wanted);
    for (std::size_t k = 0; k < made.size(); ++k) {
      if (made[k] == graph::kNoValue) continue;
      const auto [sum, is_first] = gradients.emplace(node.inputs[k], made[k]);
      if (!is_first) {
        sum->second = graph.add1(graph::Add{}, {sum->second, made[k]}, layer.name, layer.loc,
                                 graph::Phase::kBackward);
      }
    }
  }
  graph.outputs = {y, gradients.at(x)};
  for (const auto& [id, gradient] : gradients) {
    if (graph[id].role != graph::Role::kParameter) continue;
    const std::string& name = graph[id].name;
    if (!c["dweights"].contains(keras_name(c["weights"], name))) continue;
    weights.push_back(name);
    graph.outputs.push_back(gradient);
  }
  return graph;
}

void check_close(const std::string& what, const std::vector<float>& got,
                 const std::vector<double>& expected, double tolerance = 1e-5) {
  const double d = distance(got, expected);
  CHECK_MESSAGE(d < tolerance, what, ": relative distance ", d);
}

std::vector<float> rounded(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

void check_layer(const json& c, const Setup& setup) {
  const std::string title = c["name"];
  std::vector<std::string> weights;
  const Graph graph = layer_graph(c, weights);
  backend::CompileOptions options;
  options.max_samples = c["x_shape"][0];
  Runner runner(open(setup), graph, options);
  Reference reference(graph);
  for (const graph::Value& value : graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    const std::string last = keras_name(c["weights"], value.name);
    std::vector<double> values(static_cast<std::size_t>(value.shape.elements()), value.initial.a);
    if (c["weights"].contains(last)) values = numbers(c["weights"][last]["values"]);
    REQUIRE_MESSAGE(values.size() == static_cast<std::size_t>(value.shape.elements()), title,
                    value.name);
    runner.write(value.name, values);
    reference.kept[value.name] = values;
  }
  const std::vector<std::vector<double>> inputs{numbers(c["x"]), numbers(c["dy"])};
  const auto got = runner.run(options.max_samples, inputs);
  const auto expected = reference.run(options.max_samples, inputs);
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const std::string name = i < 2 ? (i == 0 ? "y" : "dx") : weights[i - 2];
    // TensorFlow shares the gradient among equal maxima, of which this case has some; ours is the
    // first's.
    if (title == "global_max_pool" && name == "dx") continue;
    const std::string last = keras_name(c["weights"], name);
    const std::vector<double> keras = numbers(i < 2 ? c[name] : c["dweights"][last]);
    check_close(concat(title, ", reference, ", name), rounded(expected[i]), keras, 3e-5);
    check_close(concat(title, ", ", to_string(setup), ", ", name), got[i], keras, 3e-5);
  }
  if (!c.contains("statistics")) return;
  for (const auto& [name, values] : c["statistics"].items()) {
    for (const auto& [full, kept] : reference.kept) {
      if (full.substr(full.rfind('/') + 1) != name) continue;
      check_close(concat(title, ", reference, ", name), rounded(kept), numbers(values));
      check_close(concat(title, ", ", name), runner.read(full), numbers(values));
    }
  }
}

}  // namespace

TEST_CASE("layers: outputs and gradients of each kind match Keras") {
  const json more = read("more_layers.json");
  for (const json& cases : {fixture()["cases"], more["cases"]}) {
    for (const auto& c : cases) {
      for (const Setup& setup : setups()) {
        if (setup.type != DType::kFloat32 || setup.lanes != 1) continue;
        try {
          check_layer(c, setup);
        } catch (const std::exception& error) {
          FAIL_CHECK(c["name"].get<std::string>(), ": ", std::string(error.what()));
        }
      }
    }
  }
}

TEST_CASE("Loss: every kind and option matches Keras") {
  const std::map<std::string, LossKind> kinds{
      {"softmax_cross_entropy", LossKind::kSoftmaxCrossEntropy},
      {"binary_cross_entropy", LossKind::kBinaryCrossEntropy},
      {"mean_squared_error", LossKind::kMeanSquaredError}};
  for (const auto& c : fixture()["losses"]) {
    const std::int64_t samples = c["shape"][0], n = c["shape"][1];
    const bool index = !c["labels"][0].is_array();
    Builder b(DType::kFloat32);
    const ValueId x = b.input({kBatch, n});
    const ValueId labels =
        index ? b.input({kBatch}, DType::kInt32, {}) : b.input({kBatch, n}, DType::kFloat32, {});
    const float smoothing = c["label_smoothing"];
    graph::Loss loss{kinds.at(c["loss"]), smoothing, true};
    if (!c["focal"].is_null()) {
      // Keras's defaults: a factor of 0.25 with softmax, no weight of the classes with binary.
      const float alpha = loss.kind == LossKind::kSoftmaxCrossEntropy ? 0.25f : -1.0f;
      loss.focal = {c["focal"].value("gamma", 2.0f), c["focal"].value("alpha", alpha)};
    }
    if (!c["class_weight"].is_null()) {
      loss.class_weight = c["class_weight"].get<std::vector<float>>();
    }
    for (const ValueId id : b.add(loss, {x, labels})) {
      b.output(id);
    }
    std::vector<std::vector<double>> inputs{numbers(c["logits"]), {}};
    for (const auto& row : c["labels"]) {
      if (index) inputs[1].push_back(row);
      if (!index)
        for (const double v : row) inputs[1].push_back(v);
    }
    backend::CompileOptions options;
    options.max_samples = samples;
    backend::Scalars scalars;
    scalars.loss_scale = 1.0 / static_cast<double>(samples);
    Runner runner(open(setups()[0]), b.graph, options);
    Reference reference(b.graph);
    const auto got = runner.run(samples, inputs, scalars);
    const auto expected = reference.run(samples, inputs, scalars);
    const std::string title = c["name"];
    const char* keys[] = {"losses", "dlogits"};
    for (std::size_t i = 0; i < 2; ++i) {
      check_close(concat(title, " ", keys[i]), got[i], numbers(c[keys[i]]));
      check_close(concat(title, " reference ", keys[i]), rounded(expected[i]), numbers(c[keys[i]]));
    }
  }
}

}  // namespace trainer::test::keras_test
